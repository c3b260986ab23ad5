"""`diag checks`: the table of all checks, and the runbook of one."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator

import click
from click.shell_completion import CompletionItem

from diagnostics import __version__
from diagnostics.checks.catalogue import Registered, catalogue
from diagnostics.checks.check import Layer
from diagnostics.cli.names import nearest
from diagnostics.errors import UsageError
from diagnostics.gen.alert import PREFIX
from diagnostics.gen.finding_alerts import severity

_WIDTH = 80
_EPILOG = """\b
Examples:
  diag checks                       all checks
  diag checks cold-start            its runbook and limits
  diag checks TritonDiagColdStart   the same, by the name of its alert
"""
# The start of a list item, whose further lines are indented to its text.
_BULLET = re.compile(r"(?:-|\d+\.) ")
# Where a paragraph ends: before an empty line or the next item.
_PARAGRAPH = re.compile(r"\n\s*\n|\n(?=(?:-|\d+\.) )")


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(found.id, help=found.title) for found in catalogue().values() if incomplete in found.id]


@click.command(epilog=_EPILOG)
@click.argument("identifier", required=False, metavar="[ID]", shell_complete=_complete)
@click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="For people or programs."
)
def command(identifier: str | None, output: str) -> None:
    """List the checks, or show the runbook and limits of one."""
    every = sorted(catalogue().values(), key=lambda found: (list(Layer).index(found.check.layer), found.id))
    chosen = _find(identifier, every) if identifier is not None else None
    if output == "json":
        click.echo(json.dumps(_document(chosen, every), indent=2, ensure_ascii=False))
    else:
        click.echo("\n".join(_page(chosen) if chosen else _table(every)))


def _find(identifier: str, every: Iterable[Registered]) -> Registered:
    """Return the check of that id, or of that alert.

    Raises:
        UsageError: there is none; the message names the nearest.

    """
    known = {found.id: found for found in every}
    by_alert = {PREFIX + found.alert: found for found in known.values()}
    found = known.get(identifier) or by_alert.get(identifier)
    if found:
        return found
    hint = nearest(identifier.lower().replace("_", "-"), known)
    raise UsageError(f"there is no check {identifier!r}", hint=hint)


def _table(every: Iterable[Registered]) -> Iterator[str]:
    rows = [("id", "layer", "what it means"), *((found.id, found.check.layer.value, found.title) for found in every)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    start = first + second + 4
    for identifier, layer, title in rows:
        text = textwrap.wrap(title, _WIDTH - start)
        yield f"{identifier:{first}}  {layer:{second}}  {text[0]}"
        yield from (" " * start + line for line in text[1:])


def _page(found: Registered) -> Iterator[str]:
    yield f"{found.id} ({found.check.layer.value})"
    yield from textwrap.wrap(f"{found.title}.", _WIDTH)
    for heading, text in found.sections().items():
        yield from ("", heading)
        for paragraph in _PARAGRAPH.split(text):
            yield from _wrapped(paragraph)
    yield from ("", "Limits")
    for name, limit in found.check.limits.items():
        yield from _wrapped(f"- {name} {limit.unit.show(limit.value)}: {limit.because}")
    if not found.check.limits:
        yield "  It compares with no number."
    yield from ("", "Alert", f"  {PREFIX}{found.alert} ({severity(found).value})")


def _wrapped(paragraph: str) -> list[str]:
    text = " ".join(paragraph.split())
    marker = _BULLET.match(text)
    hang = " " * (2 + len(marker[0]) if marker else 2)
    return textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent=hang, break_on_hyphens=False)


def _document(chosen: Registered | None, every: Iterable[Registered]) -> dict[str, object]:
    head = {"schema_version": 1, "tool": {"name": "diag", "version": __version__}}
    if chosen:
        return {**head, "kind": "check", "check": {**_summary(chosen), **_details(chosen)}}
    return {**head, "kind": "checks", "checks": [_summary(found) for found in every]}


def _summary(found: Registered) -> dict[str, object]:
    return {
        "id": found.id,
        "layer": found.check.layer.value,
        "scope": found.check.scope.value,
        "title": found.title,
        "alert": PREFIX + found.alert,
        "alert_severity": severity(found).value,
    }


def _details(found: Registered) -> dict[str, object]:
    return {
        "sections": found.sections(),
        "limits": {
            name: {"value": limit.value, "unit": limit.unit.value, "because": limit.because}
            for name, limit in found.check.limits.items()
        },
        "symptom": found.check.symptom,
        "cases": [{"title": case.title, "expect": case.expect.value} for case in found.cases],
    }
