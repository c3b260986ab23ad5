"""What text, Markdown and HTML say of two windows, in the same words."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from diagnostics.diagnosis.diff import Cell, ChangeShare, DifferenceCause, EntryDifference, WindowDiff
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.phrases import subject_name
from diagnostics.render.plain import WIDTH, Style, escaped, fitted, plain, shortened, table
from diagnostics.tuning.changes import SettingChange
from diagnostics.units import Unit, time_text

# Cells that changed by less than this of the mean are noise of no interest.
_SHOWN_SHARE = 0.01
ENTRIES_SHOWN, CELLS_SHOWN = 3, 8
NOTHING = "nothing to compare: no model or ensemble was called in both windows"
NOT_CONFIGURED = "configuration: not read on both sides"
UNCHANGED = "configuration and versions: the same"
OTHER_LOAD = "the load is not the same: what it explains is the scheduler model's word, or a guess where it has none"
_show = Unit.SECONDS.show


def outcome(found: WindowDiff) -> str:
    """Return what became of latency in a word: `slower`, `faster`, `unchanged`, or `not comparable`."""
    if not found.entries:
        return "not comparable"
    first = found.entries[0]
    if not first.matters:
        return "unchanged"
    return "slower" if first.change > 0 else "faster"


def headline(entry: EntryDifference) -> str:
    """Return what happened to an entry's mean latency, in one line."""
    before, after = entry.mean_before.value, entry.mean_after.value
    base = f"{entry.name}: {_show(before)} before, {_show(after)} after"
    if before is None or after is None or before <= 0:
        return base
    return f"{base} ({(after - before) / before:+.0%})".replace("(-", "(−").replace("%", " %")


def reason(entry: EntryDifference) -> str:
    """Return which change explains the latency, or why none is named."""
    if not entry.matters:
        return "latency did not change by 15 % and 5 ms"
    main = entry.main
    if main is None:
        return "nothing that was recorded explains it: see what changed, and look at the host, the GPU and the clients"
    return f"{_changed(main)} explains it: {main.why}"


def share_lines(entry: EntryDifference) -> list[tuple[str, str]]:
    """Return what explains the difference, largest first: seconds with their sign, and the change."""
    found = (share for share in entry.shares if abs(share.seconds) >= _SHOWN_SHARE * _base(entry))
    return [(signed(share.seconds), _share(share)) for share in found]


def cell_lines(entry: EntryDifference) -> list[Cell]:
    """Return the phases that differ enough to be looked at, largest first."""
    return [cell for cell in entry.cells if abs(cell.change) >= _SHOWN_SHARE * _base(entry)][:CELLS_SHOWN]


def stage(cell: Cell) -> str:
    """Return the name of a cell's stage."""
    return cell.stage or "between stages"


def load(entry: EntryDifference) -> str:
    """Return how much arrives before and after."""
    before, after = entry.rate_before, entry.rate_after
    same = "" if entry.load_differs else ", not certainly different"
    return f"{before.unit.show(before.value)} → {after.unit.show(after.value)}{same}"


def signed(seconds: float) -> str:
    """Return a difference of times with its sign."""
    return f"{'+' if seconds > 0 else '−' if seconds < 0 else ''}{_show(abs(seconds))}"


def called_once(found: WindowDiff) -> list[str]:
    """Return what was called in one of the windows only, a sentence each."""
    sides = (("before", found.only_before), ("after", found.only_after))
    return [f"called only {word}: {', '.join(names)}" for word, names in sides if names]


def change_lines(found: WindowDiff) -> tuple[SettingChange, ...]:
    """Return every setting and version that changed."""
    return (*(found.configured or ()), *found.versions)


def span(side: Explanation) -> str:
    """Return when a window was, how long, and what it was diagnosed as."""
    window = side.window
    if window.end <= 0:
        return "nothing was read"
    seconds = _show(window.end - window.start)
    return f"{time_text(window.start)} to {time_text(window.end)}, {seconds}, {side.verdict.value}"


def _share(share: ChangeShare) -> str:
    if share.cause is DifferenceCause.UNEXPLAINED:
        return f"not explained: {share.why}"
    return f"{_changed(share)}: {share.why}"


def _changed(share: ChangeShare) -> str:
    return f"{share.cause.value} of {share.model}" if share.model else f"the {share.cause.value}"


def _base(entry: EntryDifference) -> float:
    return max(entry.mean_before.value or 0.0, entry.mean_after.value or 0.0, 1e-9)


def diff_text(found: WindowDiff, style: Style = plain) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    parts = [
        *_entries(found, style),
        *_changes(found),
        *_findings("gone", found.gone),
        *_findings("new", found.new),
        "",
        *_wrapped(f"before  {span(found.before)}", "", "        "),
        *_wrapped(f"after   {span(found.after)}", "", "        "),
    ]
    return "\n".join(parts) + "\n"


def _entries(found: WindowDiff, style: Style) -> Iterator[str]:
    if not found.entries:
        yield style(NOTHING, "yellow")
    for entry in found.entries[:ENTRIES_SHOWN]:
        yield from _entry(entry, style)
    for line in called_once(found):
        yield from _wrapped(line, "", "  ")


def _entry(entry: EntryDifference, style: Style) -> Iterator[str]:
    colour = "" if not entry.matters else "red" if entry.change > 0 else "green"
    yield style(fitted(headline(entry), WIDTH), colour)
    yield from _wrapped(reason(entry), "  ", "  ")
    if entry.load_differs:
        yield from _wrapped(OTHER_LOAD, "  ", "  ")
    for seconds, why in share_lines(entry):
        yield from _wrapped(f"{seconds:>10}  {why}", "  ", " " * 14)
    yield f"  load        {load(entry)}"
    yield from _cells(entry)
    yield ""


def _cells(entry: EntryDifference) -> Iterator[str]:
    shown = cell_lines(entry)
    if shown:
        yield f"  {'stage':<24}{'phase':<9}{'before':>10}{'after':>10}{'change':>10}"
    for cell in shown:
        name = fitted(stage(cell), 23)
        seconds = f"{_show(cell.before):>10}{_show(cell.after):>10}{signed(cell.change):>10}"
        yield f"  {name:<24}{cell.phase.value:<9}{seconds}"


def _changes(found: WindowDiff) -> Iterator[str]:
    if found.configured is None:
        yield NOT_CONFIGURED
    changes = change_lines(found)
    if not changes:
        if found.configured is not None:
            yield UNCHANGED
        return
    yield "changed:"
    for change in changes:
        yield from _wrapped(f"{change.model or 'server'}: {change}", "  ", "    ")


def _findings(word: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    for finding in findings:
        yield from _wrapped(f"{word}: {finding.check} of {subject_name(finding)}: {finding.summary}", "", "  ")


def _wrapped(line: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(shortened(line), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def diff_markdown(found: WindowDiff) -> str:
    """Return the report as Markdown; names from servers cannot break out of it."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: WindowDiff) -> Iterator[str]:
    first, *others = found.entries[:ENTRIES_SHOWN] or (None,)
    says = headline(first) if first else NOTHING
    yield f"**{outcome(found)}**: {escaped(says)}"
    if first:
        yield from ("", f"{escaped(reason(first))}.")
        yield from _figures(first)
    for entry in others:
        yield from ("", f"### {escaped(headline(entry))}", "", f"{escaped(reason(entry))}.")
        yield from _figures(entry)
    for line in called_once(found):
        yield from ("", f"{escaped(line)}.")
    yield from _changes_markdown(found)
    yield from _findings_markdown("Gone", found.gone)
    yield from _findings_markdown("New", found.new)
    spans = (("before", span(found.before)), ("after", span(found.after)))
    yield from table(("window", "when"), spans)


def _figures(entry: EntryDifference) -> Iterator[str]:
    yield from ("", f"- load {escaped(load(entry))}")
    if entry.load_differs:
        yield f"- {OTHER_LOAD}"
    shares = share_lines(entry)
    if shares:
        yield from table(("difference", "put down to"), shares)
    cells = [
        (
            stage(cell),
            cell.phase.value,
            _show(cell.before),
            _show(cell.after),
            signed(cell.change),
        )
        for cell in cell_lines(entry)
    ]
    if cells:
        yield from table(("stage", "phase", "before", "after", "change"), cells)


def _changes_markdown(found: WindowDiff) -> Iterator[str]:
    changes = change_lines(found)
    if found.configured is None or not changes:
        yield from ("", f"{UNCHANGED if found.configured is not None else NOT_CONFIGURED}.")
    if changes:
        yield from ("", "### Changed")
        rows = ((change.model or "server", change.path, change.before, change.after) for change in changes)
        yield from table(("model", "setting", "before", "after"), rows)


def _findings_markdown(title: str, findings: tuple[Finding, ...]) -> Iterator[str]:
    if findings:
        yield from ("", f"### {title}", "")
    for finding in findings:
        yield f"- **{finding.check}** of {escaped(subject_name(finding))}: {escaped(finding.summary)}"
