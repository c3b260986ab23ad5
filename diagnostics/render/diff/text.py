"""Two windows side by side, for a terminal: what happened to latency, why, and what else changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from diagnostics.diagnosis.diff import EntryDifference, WindowDiff
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.clean import fitted, shortened
from diagnostics.render.diff import words
from diagnostics.render.lines import WIDTH, Style, plain
from diagnostics.render.words import subject_name
from diagnostics.units import Unit

_show = Unit.SECONDS.show


def diff_text(found: WindowDiff, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    parts = [
        *_entries(found, style),
        *_changes(found),
        *_findings("gone", found.gone),
        *_findings("new", found.new),
        "",
        *_wrapped(f"before  {words.span(found.before)}", "", "        "),
        *_wrapped(f"after   {words.span(found.after)}", "", "        "),
    ]
    return "\n".join(parts) + "\n"


def _entries(found: WindowDiff, style: Style) -> Iterator[str]:
    if not found.entries:
        yield style(words.NOTHING, "yellow")
    for entry in found.entries[: words.ENTRIES_SHOWN]:
        yield from _entry(entry, style)
    for line in words.called_once(found):
        yield from _wrapped(line, "", "  ")


def _entry(entry: EntryDifference, style: Style) -> Iterator[str]:
    colour = "" if not entry.matters else "red" if entry.change > 0 else "green"
    yield style(fitted(words.headline(entry), WIDTH), colour)
    yield from _wrapped(words.reason(entry), "  ", "  ")
    if entry.load_differs:
        yield from _wrapped(words.OTHER_LOAD, "  ", "  ")
    for seconds, why in words.shares(entry):
        yield from _wrapped(f"{seconds:>10}  {why}", "  ", " " * 14)
    yield f"  load        {words.load(entry)}"
    yield from _cells(entry)
    yield ""


def _cells(entry: EntryDifference) -> Iterator[str]:
    shown = words.cells(entry)
    if shown:
        yield f"  {'stage':<24}{'phase':<9}{'before':>10}{'after':>10}{'change':>10}"
    for cell in shown:
        name = fitted(words.stage(cell), 23)
        seconds = f"{_show(cell.before):>10}{_show(cell.after):>10}{words.signed(cell.change):>10}"
        yield f"  {name:<24}{cell.phase.value:<9}{seconds}"


def _changes(found: WindowDiff) -> Iterator[str]:
    if found.configured is None:
        yield words.NOT_CONFIGURED
    changes = words.changes(found)
    if not changes:
        if found.configured is not None:
            yield words.UNCHANGED
        return
    yield "changed:"
    for change in changes:
        yield from _wrapped(f"{change.model or 'server'}: {change}", "  ", "    ")


def _findings(word: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield from _wrapped(f"{word}: {finding.check} of {subject_name(finding)}: {finding.summary}", "", "  ")


def _wrapped(line: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(shortened(line), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
