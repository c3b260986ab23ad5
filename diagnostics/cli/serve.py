"""`diag serve`: run beside production, and explain all the time."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from importlib import resources
from pathlib import Path

import click

from diagnostics.errors import UsageError, not_installed

_EPILOG = """\b
Examples:
  diag serve http://triton-0:8000 http://triton-1:8000
  diag serve --config.file diag.toml
  diag serve --config.file diag.toml --check-config
  DIAG_COLLECT__INTERVAL=30s diag serve triton:8000

\b
SOURCE is a server, besides those of the settings file. Every setting can be
given as DIAG_SECTION__KEY. History is kept in ./data, unless
DIAG_HISTORY__DIRECTORY or [history] names another folder. SIGHUP reads the file anew, SIGTERM ends.
Exit: 0 ended, 2 a setting is wrong, 3 what it needs cannot be used.
"""
_FLAGS = {
    "web_listen_address": "web.listen_address",
    "web_config_file": "web.config_file",
    "web_external_url": "web.external_url",
    "web_route_prefix": "web.route_prefix",
    "log_level": "log.level",
    "log_format": "log.format",
}


@click.command(epilog=_EPILOG, short_help="Watch servers all the time: causes, incidents, alerts, a page.")
@click.argument("sources", nargs=-1, metavar="[SOURCE]...")
@click.option("--config.file", "config_file", type=click.Path(path_type=Path, dir_okay=False), help="Settings, TOML.")
@click.option("--check-config", is_flag=True, help="Print the settings and where each comes from, and end.")
@click.option("--systemd-unit", is_flag=True, help="Print a hardened systemd unit that runs it, and end.")
@click.option(
    "--web.listen-address",
    "web_listen_address",
    metavar="HOST:PORT",
    help="Where to listen.  [default: 127.0.0.1:9177]",
)
@click.option(
    "--web.config.file", "web_config_file", metavar="FILE", help="TLS and users, in Prometheus' web-config format."
)
@click.option(
    "--web.external-url",
    "web_external_url",
    metavar="URL",
    help="How people reach the page; links in alerts begin with it.",
)
@click.option(
    "--web.route-prefix",
    "web_route_prefix",
    metavar="PATH",
    help="The path all else is below; that of --web.external-url unless a proxy strips it.",
)
@click.option(
    "--log.level",
    "log_level",
    type=click.Choice(["debug", "info", "warn", "error"]),
    help="The least that is logged.  [default: info]",
)
@click.option(
    "--log.format",
    "log_format",
    type=click.Choice(["logfmt", "json"]),
    help="How a line is written.  [default: logfmt]",
)
def command(
    sources: tuple[str, ...], config_file: Path | None, check_config: bool, systemd_unit: bool, **flags: str | None
) -> None:
    """Watch servers all the time: findings, incidents, alerts, and a page to look at."""
    if systemd_unit:
        if sources or config_file or check_config or any(value is not None for value in flags.values()):
            hint = "give it alone: the unit reads /etc/diag.toml"
            raise UsageError("takes no SOURCE and no setting", where="--systemd-unit", hint=hint)
        click.echo(_unit(), nl=False)
        return
    _outlive_early_reloads()
    try:
        from diagnostics.service.running import check, run
    except ModuleNotFoundError as error:
        raise not_installed(error, "serve", where="diag serve") from None
    given = {_FLAGS[name]: value for name, value in flags.items() if value is not None}
    read = (config_file, dict(os.environ), given, sources)
    if check_config:
        for line in check(*read):
            click.echo(line)
    else:
        run(*read)


def _outlive_early_reloads() -> None:
    """Ignore SIGHUP while there is nothing to reload yet: it would end the process."""
    with contextlib.suppress(ValueError):  # signals are the main thread's alone
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _unit() -> str:
    """Return the unit with the program as it was called now."""
    written = resources.files("diagnostics.service").joinpath("diag.service").read_text("utf-8")
    program = shutil.which(sys.argv[0]) or "/usr/local/bin/diag"
    return written.replace("@DIAG@", str(Path(program).absolute()))
