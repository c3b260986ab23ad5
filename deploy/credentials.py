"""Makes what `diag serve` asks those for who reach it: `python -m deploy.credentials FOLDER`.

FOLDER gets `token`, which Prometheus presents, `web.yml`, the users of the page in Prometheus' web-config format, and
`grafana`, the password of Grafana's admin in the compose stack. The password of the page is asked for.
"""

from __future__ import annotations

import argparse
import getpass
import secrets
import sys
from pathlib import Path

from diagnostics.errors import UsageError, not_installed, reason_of
from exporters.sources.access import read_secret

try:
    import bcrypt
except ModuleNotFoundError as error:
    sys.exit(f"error: {not_installed(error, 'serve', where='python -m deploy.credentials')}")

# bcrypt reads no further.
_LONGEST = 72


def contents(user: str, password: str) -> dict[str, str]:
    """Return the text of each file by its name; tokens are generated afresh."""
    hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt()).decode()
    return {
        "token": secrets.token_hex(32) + "\n",
        "web.yml": f"basic_auth_users:\n  {user}: '{hashed}'\n",
        "grafana": secrets.token_urlsafe(24) + "\n",
    }


def write(folder: Path, texts: dict[str, str]) -> None:
    """Write the files where nothing is yet. Only the folder's owner reaches them; containers get single ones."""
    folder.mkdir(mode=0o700, parents=True)
    for name, text in texts.items():
        (folder / name).write_text(text, "utf-8")
        (folder / name).chmod(0o644)


def main() -> int:
    """Ask for the password, write the files and say which; return 2 where that cannot be."""
    options = argparse.ArgumentParser(prog="python -m deploy.credentials", description="Make a token and a password.")
    options.add_argument("folder", type=Path, help="a new folder")
    options.add_argument("--user", default="diag", help="whose password it is")
    options.add_argument("--password-file", type=Path, help="a file with the password, instead of asking for it")
    requested = options.parse_args()
    try:
        _make(requested.folder, requested.user, requested.password_file)
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def _make(folder: Path, user: str, password_file: Path | None) -> None:
    if folder.exists():
        raise UsageError("is there already", where=str(folder), hint="name a new folder, or remove it")
    if not user.isidentifier():
        raise UsageError(f"{user!r} is no plain name", where="--user", hint="use letters and digits")
    password = read_secret(password_file, "password") if password_file else _requested(user)
    if not 8 <= len(password.encode()) <= _LONGEST:
        raise UsageError(f"the password has {len(password.encode())} bytes", hint=f"use 8 to {_LONGEST}")
    texts = contents(user, password)
    try:
        write(folder, texts)
    except OSError as error:
        raise UsageError(f"cannot be written: {reason_of(error)}", where=str(folder)) from None
    sys.stdout.write(f"{folder}: wrote {', '.join(texts)}; the page's user is {user}\n")


def _requested(user: str) -> str:
    """Return the password that was typed twice.

    Raises:
        UsageError: nobody can be asked, or two passwords were typed.

    """
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask for the password", hint="give it with --password-file")
    try:
        password = getpass.getpass(f"password of {user}: ")
        if password != getpass.getpass("the same again: "):
            raise UsageError("the passwords differ", hint="run it again")
    except (EOFError, KeyboardInterrupt):
        raise UsageError("no password was given", hint="run it again, or give it with --password-file") from None
    return password


if __name__ == "__main__":
    sys.exit(main())
