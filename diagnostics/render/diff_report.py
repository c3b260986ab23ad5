"""Two windows side by side, for a terminal: what happened to latency, why, and what else changed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from diagnostics.diagnosis.diff import Difference, EntryDifference
from diagnostics.diagnosis.diff_shares import Cause, Share
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.clean import clean, fitted
from diagnostics.render.json_report import time_text
from diagnostics.render.text import WIDTH, Style, plain
from diagnostics.render.words import subject_name
from diagnostics.units import Unit

# Cells that changed by less than this of the mean are noise of no interest.
_SHOWN_SHARE = 0.01
_ENTRIES_SHOWN, _CELLS_SHOWN = 3, 8
_show = Unit.SECONDS.show


def diff_text(found: Difference, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    parts = [
        *_entries(found, style),
        *_changes(found),
        *_findings("gone", found.gone),
        *_findings("new", found.new),
        "",
        *_wrapped(f"before  {_span(found.before)}", "", "        "),
        *_wrapped(f"after   {_span(found.after)}", "", "        "),
    ]
    return "\n".join(parts) + "\n"


def _entries(found: Difference, style: Style) -> Iterator[str]:
    if not found.entries:
        yield style("nothing to compare: no model or ensemble was called in both windows", "yellow")
    for entry in found.entries[:_ENTRIES_SHOWN]:
        yield from _entry(entry, style)
    for word, names in (("before", found.only_before), ("after", found.only_after)):
        if names:
            yield from _wrapped(f"called only {word}: {', '.join(names)}", "", "  ")


def _entry(entry: EntryDifference, style: Style) -> Iterator[str]:
    colour = "" if not entry.matters else "red" if entry.change > 0 else "green"
    yield style(fitted(headline(entry), WIDTH), colour)
    yield from _wrapped(reason(entry), "  ", "  ")
    if entry.load_differs:
        yield from _wrapped(
            "the load is not the same: what it explains is the scheduler model's word, or a guess where it has none",
            "  ",
            "  ",
        )
    for share in entry.shares:
        if abs(share.seconds) >= _SHOWN_SHARE * _base(entry):
            yield from _wrapped(f"{signed(share.seconds):>10}  {_share(share)}", "  ", " " * 14)
    yield from _load(entry)
    yield from _cells(entry)
    yield ""


def headline(entry: EntryDifference) -> str:
    """Return what happened to an entry's mean latency, in one line."""
    before, after = entry.mean_before.value, entry.mean_after.value
    base = f"{entry.name}: {_show(before)} before, {_show(after)} after"
    if before is None or after is None or before <= 0:
        return base
    return f"{base} ({(after - before) / before:+.0%})".replace("(-", "(−")


def reason(entry: EntryDifference) -> str:
    """Return which change explains the latency, or why none is named."""
    if not entry.matters:
        return "latency did not change by 15 % and 5 ms"
    main = entry.main
    if main is None:
        return "nothing that was recorded explains it: see what changed, and look at the host, the GPU and the clients"
    return f"{_changed(main)} explains it: {main.why}"


def _share(share: Share) -> str:
    if share.cause is Cause.UNEXPLAINED:
        return f"not explained: {share.why}"
    return f"{_changed(share)}: {share.why}"


def _changed(share: Share) -> str:
    return f"{share.cause.value} of {share.model}" if share.model else f"the {share.cause.value}"


def _base(entry: EntryDifference) -> float:
    return max(entry.mean_before.value or 0.0, entry.mean_after.value or 0.0, 1e-9)


def _load(entry: EntryDifference) -> Iterator[str]:
    before, after = entry.rate_before, entry.rate_after
    same = "" if entry.load_differs else ", not certainly different"
    yield f"  load        {before.unit.show(before.value)} → {after.unit.show(after.value)}{same}"


def _cells(entry: EntryDifference) -> Iterator[str]:
    shown = [cell for cell in entry.cells if abs(cell.change) >= _SHOWN_SHARE * _base(entry)][:_CELLS_SHOWN]
    if shown:
        yield f"  {'stage':<24}{'phase':<9}{'before':>10}{'after':>10}{'change':>10}"
    for cell in shown:
        name = fitted(cell.stage or "between stages", 23)
        seconds = f"{_show(cell.before):>10}{_show(cell.after):>10}{signed(cell.change):>10}"
        yield f"  {name:<24}{cell.phase.value:<9}{seconds}"


def signed(seconds: float) -> str:
    """Return a difference of times with its sign."""
    return f"{'+' if seconds > 0 else '−' if seconds < 0 else ''}{_show(abs(seconds))}"


def _changes(found: Difference) -> Iterator[str]:
    if found.configured is None:
        yield "configuration: not read on both sides"
    changes = (*(found.configured or ()), *found.versions)
    if not changes:
        if found.configured is not None:
            yield "configuration and versions: the same"
        return
    yield "changed:"
    for change in changes:
        yield from _wrapped(f"{change.model or 'server'}: {change}", "  ", "    ")


def _findings(word: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield from _wrapped(f"{word}: {finding.check} of {subject_name(finding)}: {finding.summary}", "", "  ")


def _span(side: Explanation) -> str:
    window = side.window
    if window.end <= 0:
        return "nothing was read"
    seconds = _show(window.end - window.start)
    return f"{time_text(window.start)} to {time_text(window.end)}, {seconds}, {side.verdict.value}"


def _wrapped(line: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(clean(line), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
