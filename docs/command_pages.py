"""What the command line says of itself: a page of the documentation, manual pages and shell completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from inspect import cleandoc

import click
from click.shell_completion import get_completion_class

from diagnostics import __version__
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
    for verb, below in _below(command, context):
        yield from _sections(below, f"{name} {verb}", click.Context(below, info_name=verb, parent=context))


def _help(command: click.Command, context: click.Context) -> str:
    context.terminal_width, context.max_content_width = 80, 80
    return command.get_help(context).rstrip()


# Where each shell looks for the completion of `diag`, below share/.
_COMPLETIONS = {
    "bash": "bash-completion/completions/diag",
    "zsh": "zsh/site-functions/_diag",
    "fish": "fish/vendor_completions.d/diag.fish",
}
# A page says which release it is of; a date would make it stale every day.
_UNDATED = " "


def shared_files() -> dict[str, str]:
    """Return the text of each file that is installed below share/, by its path there."""
    pages = {
        f"man/man1/{name}.1": page
        for name, page in _pages(diag, click.Context(diag, info_name="diag", **diag.context_settings))
    }
    return pages | {path: _completion(shell) for shell, path in _COMPLETIONS.items()}


def _pages(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    below = dict(_below(command, context))
    yield context.command_path.replace(" ", "-"), _page(command, context, below)
    for verb, one in below.items():
        yield from _pages(one, click.Context(one, info_name=verb, parent=context))


def _below(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for verb in command.list_commands(context):
            found = command.get_command(context, verb)
            if found is not None and not found.hidden:
                yield verb, found


def _page(command: click.Command, context: click.Context, below: Mapping[str, click.Command]) -> str:
    from click_man.man import ManPage  # of the extra `docs`, without which the page of the command line is written

    page = ManPage(context.command_path)
    page.version, page.date = __version__, _UNDATED
    page.short_help = _summary(command)
    page.description = _plain(command.help)
    page.synopsis = " ".join(command.collect_usage_pieces(context))
    page.options = [record for param in command.get_params(context) if (record := param.get_help_record(context))]
    page.commands = [(verb, _summary(one)) for verb, one in below.items()]
    lines = str(page).splitlines()
    if command.epilog:
        lines += [".SH NOTES", ".nf", *(_escaped(line) for line in _plain(command.epilog).splitlines()), ".fi"]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _summary(command: click.Command) -> str:
    return _plain(command.help).partition("\n\n")[0].replace("\n", " ").rstrip(".")


def _plain(text: str | None) -> str:
    # Click's mark of a paragraph that keeps its lines is no part of the text.
    return cleandoc(text or "").replace("\b\n", "").replace("\b", "").strip()


def _escaped(line: str) -> str:
    # A backslash escapes in roff, and a leading dot or quote is a request.
    line = line.replace("\\", "\\e")
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _completion(shell: str) -> str:
    found = get_completion_class(shell)
    assert found is not None
    return found(diag, {}, "diag", "_DIAG_COMPLETE").source().strip() + "\n"
