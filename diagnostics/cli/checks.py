"""The table of checks, read from their files without importing them: a shell waits for it."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from diagnostics import checks

_LAYER = re.compile(r"\blayer=Layer\.([A-Z]+)")
_TITLE = re.compile(r'\A"""(.+?)\.?\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """What the table says of one check: `layer` and `title` as its file states them."""

    id: str
    layer: str
    title: str


def rows() -> tuple[CheckRow, ...]:
    """Return a row per file that declares a check, by id. A test holds them against the imported catalogue."""
    found = []
    for path in sorted(Path(checks.__path__[0]).glob("*.py")):
        text = path.read_text("utf-8")
        layer, title = _LAYER.search(text), _TITLE.match(text)
        if layer and title and "\nCHECK = Check(" in text:
            found.append(CheckRow(id=path.stem.replace("_", "-"), layer=layer[1].lower(), title=title[1]))
    return tuple(found)


_WIDTH = 80
# In the order of the design: from what users' requests pass first to what only watches.
_LAYERS = ("serving", "engine", "gpu", "host", "client", "fleet", "telemetry")
_EPILOG = """\b
Examples:
  diag checks                       all checks
  diag checks cold-start            its runbook and limits
  diag checks TritonDiagColdStart   the same, by the name of its alert

\b
Exit: 0 shown, 2 there is no such check.
"""


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(row.id, help=row.title) for row in rows() if incomplete in row.id]


@click.command(epilog=_EPILOG)
@click.argument("identifier", required=False, metavar="[ID]", shell_complete=_complete)
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people or programs."
)
def command(identifier: str | None, output: str) -> None:
    """List the checks, or show the runbook and limits of one."""
    if identifier is None and output == "text":
        click.echo("\n".join(_table()))
        return
    # Only the page and the JSON need the checks themselves, which take ten times as long to import as the table.
    from diagnostics.cli.check_page import document, find, page

    chosen = find(identifier) if identifier is not None else None
    if output == "json" or chosen is None:
        click.echo(json.dumps(document(chosen), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(page(chosen)))


def _table() -> Iterator[str]:
    every = sorted(rows(), key=lambda row: (_LAYERS.index(row.layer), row.id))
    lines = [("id", "layer", "what it means"), *((row.id, row.layer, row.title) for row in every)]
    first, second = (max(len(line[column]) for line in lines) for column in (0, 1))
    start = first + second + 4
    for identifier, layer, title in lines:
        text = textwrap.wrap(title, _WIDTH - start)
        yield f"{identifier:{first}}  {layer:{second}}  {text[0]}"
        yield from (" " * start + line for line in text[1:])
