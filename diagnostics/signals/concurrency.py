"""How many requests of an entry are under way at once: a constant number is what clients in a closed loop keep."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.signals.arrivals import CLIENT
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.traces import ALL_TRACED, TRACE_FIX, TRACES, completed
from diagnostics.units import Unit
from diagnostics.window.view import ModelView

Interval = tuple[float, float]


def under_way(view: ModelView) -> tuple[Sequence[Interval], str]:
    """Return (start, end) of each request of the entry in Unix seconds, and where they were read.

    From the client's record, else from traces where every request was traced; empty where neither is there.
    """
    sent = [(r.at, r.at + r.seconds) for r in view.window.clients if r.model == view.model]
    inside = [one for one in sent if one[1] > view.start and one[0] < view.end]
    if inside and len(view.window.servers) == 1:
        return inside, CLIENT
    roots = [request.root for request in view.traces().roots(view.model or "")]
    spans = [(root.start * 1e-9, root.end * 1e-9) for root in roots if view.start <= root.end * 1e-9 <= view.end]
    everything = completed(view)
    if not everything or len(spans) < ALL_TRACED * everything:
        return [], TRACES
    return spans, TRACES


def _changes(intervals: Sequence[Interval]) -> list[tuple[float, int]]:
    return sorted([(start, 1) for start, _ in intervals] + [(end, -1) for _, end in intervals])


def _counted(view: ModelView) -> tuple[float, int, str, int] | None:
    """Return mean and most requests under way, the source, and how many there were; None with too few of them."""
    intervals, source = under_way(view)
    if len(intervals) < ENOUGH_EVENTS:
        return None
    # Outside of what was sent nobody sees the clients: before the first one ended and after the last one began.
    begin, stop = min(end for _, end in intervals), max(start for start, _ in intervals)
    begin, stop = max(begin, view.start), min(stop, view.end)
    if stop <= begin:
        return None
    area, most, now, last = 0.0, 0, 0, begin
    for at, step in _changes(intervals):
        if begin < at <= stop:
            area, last, most = area + now * (at - last), at, max(most, now)
        now += step
        if at >= stop:
            break
    return area / max(last - begin, 1e-9), most, source, len(intervals)


def _most(view: ModelView) -> Reading:
    found = _counted(view)
    if found is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT)
    return Reading.of(float(found[1]), Unit.COUNT, found[2], events=found[3])


def _steadiness(view: ModelView) -> Reading:
    found = _counted(view)
    if found is None or not found[1]:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO)
    return Reading.of(found[0] / found[1], Unit.RATIO, found[2], events=found[3])


CONCURRENCY = Signal(
    name="concurrency",
    unit=Unit.COUNT,
    scope=Scope.ENTRY,
    doc="Most requests of the entry that are under way at once.",
    readers=(_most,),
    fix=TRACE_FIX,
)
CONCURRENCY_STEADINESS = Signal(
    name="concurrency_steadiness",
    unit=Unit.RATIO,
    scope=Scope.ENTRY,
    doc="Mean ÷ most requests under way: near 1 where clients in a closed loop keep their number constant.",
    readers=(_steadiness,),
    fix=TRACE_FIX,
)
