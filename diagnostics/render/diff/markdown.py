"""Two windows side by side, for an incident channel or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.diff import EntryDifference, WindowDiff
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.diff import words
from diagnostics.render.markdown_text import escaped, table
from diagnostics.render.words import subject_name
from diagnostics.units import Unit

_show = Unit.SECONDS.show


def diff_markdown(found: WindowDiff) -> str:
    """Return the report as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: WindowDiff) -> Iterator[str]:
    first, *others = found.entries[: words.ENTRIES_SHOWN] or (None,)
    says = words.headline(first) if first else words.NOTHING
    yield f"**{words.outcome(found)}**: {escaped(says)}"
    if first:
        yield from ("", f"{escaped(words.reason(first))}.")
        yield from _figures(first)
    for entry in others:
        yield from ("", f"### {escaped(words.headline(entry))}", "", f"{escaped(words.reason(entry))}.")
        yield from _figures(entry)
    for line in words.called_once(found):
        yield from ("", f"{escaped(line)}.")
    yield from _changes(found)
    yield from _findings("Gone", found.gone)
    yield from _findings("New", found.new)
    spans = (("before", words.span(found.before)), ("after", words.span(found.after)))
    yield from table(("window", "when"), spans)


def _figures(entry: EntryDifference) -> Iterator[str]:
    yield from ("", f"- load {escaped(words.load(entry))}")
    if entry.load_differs:
        yield f"- {words.OTHER_LOAD}"
    shares = words.shares(entry)
    if shares:
        yield from table(("difference", "put down to"), shares)
    cells = [
        (
            words.stage(cell),
            cell.phase.value,
            _show(cell.before),
            _show(cell.after),
            words.signed(cell.change),
        )
        for cell in words.cells(entry)
    ]
    if cells:
        yield from table(("stage", "phase", "before", "after", "change"), cells)


def _changes(found: WindowDiff) -> Iterator[str]:
    changes = words.changes(found)
    if found.configured is None or not changes:
        yield from ("", f"{words.UNCHANGED if found.configured is not None else words.NOT_CONFIGURED}.")
    if changes:
        yield from ("", "### Changed")
        rows = ((change.model or "server", change.path, change.before, change.after) for change in changes)
        yield from table(("model", "setting", "before", "after"), rows)


def _findings(title: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    if findings:
        yield from ("", f"### {title}", "")
    for finding in findings:
        yield f"- **{finding.check}** of {escaped(subject_name(finding))}: {escaped(finding.summary)}"
