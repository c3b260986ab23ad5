"""Two windows side by side, for an incident channel or a ticket."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.diff import Difference, EntryDifference
from diagnostics.diagnosis.finding import Finding
from diagnostics.render import diff_words
from diagnostics.render.markdown_text import escaped, table
from diagnostics.render.words import subject_name
from diagnostics.units import Unit

_show = Unit.SECONDS.show


def diff_markdown(found: Difference) -> str:
    """Return the report as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: Difference) -> Iterator[str]:
    first, *others = found.entries[: diff_words.ENTRIES_SHOWN] or (None,)
    says = diff_words.headline(first) if first else diff_words.NOTHING
    yield f"**{diff_words.outcome(found)}**: {escaped(says)}"
    if first:
        yield from ("", f"{escaped(diff_words.reason(first))}.")
        yield from _figures(first)
    for entry in others:
        yield from ("", f"### {escaped(diff_words.headline(entry))}", "", f"{escaped(diff_words.reason(entry))}.")
        yield from _figures(entry)
    for line in diff_words.called_once(found):
        yield from ("", f"{escaped(line)}.")
    yield from _changes(found)
    yield from _findings("Gone", found.gone)
    yield from _findings("New", found.new)
    spans = (("before", diff_words.span(found.before)), ("after", diff_words.span(found.after)))
    yield from table(("window", "when"), spans)


def _figures(entry: EntryDifference) -> Iterator[str]:
    yield from ("", f"- load {escaped(diff_words.load(entry))}")
    if entry.load_differs:
        yield f"- {diff_words.OTHER_LOAD}"
    shares = diff_words.shares(entry)
    if shares:
        yield from table(("difference", "put down to"), shares)
    cells = [
        (
            diff_words.stage(cell),
            cell.phase.value,
            _show(cell.before),
            _show(cell.after),
            diff_words.signed(cell.change),
        )
        for cell in diff_words.cells(entry)
    ]
    if cells:
        yield from table(("stage", "phase", "before", "after", "change"), cells)


def _changes(found: Difference) -> Iterator[str]:
    changes = diff_words.changes(found)
    if found.configured is None or not changes:
        yield from ("", f"{diff_words.UNCHANGED if found.configured is not None else diff_words.NOT_CONFIGURED}.")
    if changes:
        yield from ("", "### Changed")
        rows = ((change.model or "server", change.path, change.before, change.after) for change in changes)
        yield from table(("model", "setting", "before", "after"), rows)


def _findings(title: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    if findings:
        yield from ("", f"### {title}", "")
    for finding in findings:
        yield f"- **{finding.check}** of {escaped(subject_name(finding))}: {escaped(finding.summary)}"
