"""The page of the command line: what `--help` prints, verb by verb."""

from __future__ import annotations

from collections.abc import Iterator

import click

from diagnostics.cli.main import diag

_HEAD = """\
# Command line

Results go to standard output. Progress and warnings go to standard error.
Durations are written as in [settings](settings.md): `500ms`, `60s`, `5m`, `1h30m`, `7d`. A number alone is seconds.
`NO_COLOR=1` turns colour off. See also [exit codes](exit-codes.md) and [environment variables](environment.md).
"""


def cli_page() -> str:
    """Return the page."""
    return "\n\n".join(
        [_HEAD.strip(), *_sections(diag, "diag", click.Context(diag, info_name="diag", **diag.context_settings))]
    )


def _sections(command: click.Command, name: str, context: click.Context) -> Iterator[str]:
    """Yield a section for a command, then one for each command below it."""
    yield f"## {name}\n\n```text\n{_help(command, context)}\n```"
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            below = command.get_command(context, verb)
            if below is not None and not below.hidden:
                yield from _sections(below, f"{name} {verb}", click.Context(below, info_name=verb, parent=context))


def _help(command: click.Command, context: click.Context) -> str:
    context.terminal_width, context.max_content_width = 80, 80
    return command.get_help(context).rstrip()
