"""Makes what `diag serve` asks those for who reach it: `python -m deploy.credentials FOLDER [--user NAME]`.

FOLDER gets `token`, which Prometheus presents, `web.yml`, the users of the page in Prometheus' web-config format, and
`grafana`, the password of Grafana's admin in the compose stack. The password of the page is asked for.
"""

from __future__ import annotations

import argparse
import getpass
import secrets
import sys
from pathlib import Path

import bcrypt

# bcrypt reads no further.
_LONGEST = 72


def contents(user: str, password: str) -> dict[str, str]:
    """Return the text of each file by its name; tokens are drawn anew."""
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
    """Ask for the password and write the files; return 2 where that cannot be."""
    options = argparse.ArgumentParser(prog="python -m deploy.credentials", description="Make a token and a password.")
    options.add_argument("folder", type=Path, help="a new folder")
    options.add_argument("--user", default="diag", help="whose password it is")
    asked = options.parse_args()
    if asked.folder.exists():
        return _told(f"{asked.folder} is there already: name a new folder, or remove it")
    if not asked.user.isidentifier():
        return _told(f"{asked.user!r} is no plain name: use letters and digits")
    password = getpass.getpass(f"password of {asked.user}: ")
    if not 8 <= len(password.encode()) <= _LONGEST:
        return _told(f"the password has {len(password.encode())} bytes: use 8 to {_LONGEST}")
    write(asked.folder, contents(asked.user, password))
    return 0


def _told(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 2


if __name__ == "__main__":
    sys.exit(main())
