"""What is said of two windows; the page uses the same words."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.diagnosis.diff import Cell, ChangeShare, DifferenceCause, EntryDifference, WindowDiff
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.document import Block, Document, Heading, Headline, Points, Sentence, Table, TableColumn
from diagnostics.render.phrases import cause_named
from diagnostics.render.verification.document import sides
from diagnostics.tuning.changes import SettingChange
from diagnostics.units import Unit, time_text

# Cells that changed by less than this of the mean are noise of no interest.
_SHOWN_SHARE = 0.01
# Less does not change a sum that is shown with three digits.
_LEFT_OUT_SHARE = 0.001
_OUTSIDE = "outside of the stages' times"
_OF_TRACES = f"{_OUTSIDE}: these are of traced requests, the means of all"
ENTRIES_SHOWN, CELLS_SHOWN = 3, 8
NOTHING = "no model or ensemble was called in both windows"
NOT_CONFIGURED = "configuration: not read on both sides"
UNCHANGED = "configuration and versions: the same"
OTHER_LOAD = "the load differs: its effect comes from the scheduler model, or is a guess without one"
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
    share = (after - before) / before
    return f"{base} ({'±0 %' if abs(share) < 0.005 else f'{share:+.0%}'.replace('-', '−').replace('%', ' %')})"


def reason(entry: EntryDifference, found: WindowDiff) -> str:
    """Return which change explains the latency, else what is diagnosed on the slower side alone, else where to look."""
    if not entry.matters:
        return "latency did not change by 15 % and 5 ms"
    main = entry.main
    diagnosed = "" if main is not None else ", ".join(cause_named(one) for one in one_sided(entry, found))
    if diagnosed:
        side = "after" if entry.change > 0 else "before"
        return f"no change of settings, versions or load explains it; diagnosed only {side}: {diagnosed}"
    if main is None:
        return "nothing that was recorded explains it: see what changed, and look at the host, the GPU and the clients"
    return f"{_changed(main)} explains it: {main.why}"


def one_sided(entry: EntryDifference, found: WindowDiff) -> list[Finding]:
    """Return causes of the slower window alone, at the stages whose difference no change explains."""
    findings = found.new if entry.change > 0 else found.gone
    stages = {
        one.model
        for one in entry.shares
        if one.cause is DifferenceCause.UNEXPLAINED and one.seconds * entry.change > 0 and one.model
    }
    return [one for one in findings if one.subject.model in stages]


def share_lines(entry: EntryDifference) -> list[tuple[str, str]]:
    """Return what explains the difference, largest first: seconds with their sign, and the change.

    With the last lines, they add up to the difference of the means, to a thousandth of the mean.
    """
    shown = [share for share in entry.shares if abs(share.seconds) >= _SHOWN_SHARE * _base(entry)]
    if not shown:
        return []
    every, listed = (sum(share.seconds for share in shares) for shares in (entry.shares, shown))
    left = ((every - listed, "smaller differences"), (entry.change - every, _OF_TRACES if entry.traced else _OUTSIDE))
    return [
        *((signed(share.seconds), _share(share)) for share in shown),
        *((signed(seconds), why) for seconds, why in left if abs(seconds) >= _LEFT_OUT_SHARE * _base(entry)),
    ]


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


def diff_document(found: WindowDiff) -> Document:
    """Return what changed, and which change explains it."""
    return [
        *_entries(found),
        *(Sentence(text=line) for line in called_once(found)),
        *_changes(found),
        *(
            Points(title=title, items=[f"{cause_named(one)}: {one.summary}" for one in findings])
            for title, findings in (("gone", found.gone), ("new", found.new))
        ),
        sides([span(found.before), span(found.after)]),
    ]


def _entries(found: WindowDiff) -> Iterator[Block]:
    if not found.entries:
        yield Headline(verdict=outcome(found), text=NOTHING, colour="yellow")
    for number, entry in enumerate(found.entries[:ENTRIES_SHOWN]):
        colour = "" if not entry.matters else "red" if entry.change > 0 else "green"
        if number == 0:
            yield Headline(verdict=outcome(found), text=headline(entry), colour=colour)
        else:
            yield Heading(text=headline(entry), colour=colour)
        yield Sentence(text=reason(entry, found), under=2)
        if entry.load_differs:
            yield Sentence(text=OTHER_LOAD, under=2)
        yield Table(columns=_SHARES, rows=share_lines(entry), headed=False, under=True)
        yield Sentence(text=f"load {load(entry)}", under=2)
        yield Table(
            columns=_CELLS,
            rows=[
                (stage(cell), cell.phase.value, _show(cell.before), _show(cell.after), signed(cell.change))
                for cell in cell_lines(entry)
            ],
            under=True,
        )


_SHARES = (TableColumn(head="difference", width=10, right=True), TableColumn(head="put down to", wraps=True))
_CELLS = (
    TableColumn(head="stage", width=24),
    TableColumn(head="phase", width=9),
    *(TableColumn(head=head, width=10, right=True) for head in ("before", "after", "change")),
)


def _changes(found: WindowDiff) -> Iterator[Block]:
    changes = change_lines(found)
    if found.configured is None:
        yield Sentence(text=NOT_CONFIGURED)
    elif not changes:
        yield Sentence(text=UNCHANGED)
    yield Points(title="changed", items=[f"{change.model or 'server'}: {change}" for change in changes])
