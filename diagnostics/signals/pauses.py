"""Executions that are slow after each pause: what they need went to sleep, or was closed, while nobody asked.

A connection that ends when it is idle, a cache that expires, a clock that falls: each request after a pause pays again,
however long ago the model was loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.outages import CLIENT
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.signals.traces import ALL_TRACED, TRACED_SHARE, TRACES, completed, executed_visits
from diagnostics.units import Unit
from diagnostics.window.traces import NANOSECOND
from diagnostics.window.view import ModelView

# Batch size and load move an execution by less than three times; waking something up by tens.
SLOW = 3.0
# So many of either side may be on the other: a request now and then is slow for another reason.
_MISPLACED = 0.1
# Pauses that hardly differ do not separate requests, in whatever order they came.
_APART = 2.0
# A record that lacks more requests than this does not show when nobody asked.
_MOST = 0.9


class _FirstRequest(NamedTuple):
    """One request that found nobody before it: how long nobody had asked, and how long it took, in seconds."""

    pause: float
    seconds: float


class _AfterPause(NamedTuple):
    """What pauses cost, in seconds: from which length on, what requests take after one, and what they take else."""

    pause: float
    seconds: float
    usual: float
    slow: int
    requests: int
    source: str


def _spans(view: ModelView) -> tuple[list[tuple[float, float]], str]:
    """Return begin and end of nearly all requests; none where they are not recorded."""
    if (TRACED_SHARE.read(view).value or 0.0) >= ALL_TRACED:
        visits = executed_visits(view)
        return [((one.began or 0) * NANOSECOND, (one.computed or 0) * NANOSECOND) for one in visits], TRACES
    sent = [r for r in view.window.clients if r.model == view.model and r.ok and view.start <= r.at <= view.end]
    everything = completed(view)
    known = everything is not None and len(sent) >= _MOST * everything
    return [(r.at, r.at + r.seconds) for r in sent] if known else [], CLIENT


def _first_requests(spans: Sequence[tuple[float, float]]) -> Iterator[_FirstRequest]:
    reached: float | None = None
    for start, end in sorted(spans):
        if reached is not None and start > reached:
            yield _FirstRequest(start - reached, end - start)
        reached = max(end, reached or end)


def _found(view: ModelView) -> _AfterPause | None:
    """Return what pauses cost; None where requests after long ones take no longer, or too few are recorded."""
    spans, source = _spans(view)
    firsts = sorted(_first_requests(spans), key=lambda one: one.pause)
    if len(firsts) < 2 * FEWEST_EVENTS:
        return None
    usual = median(one.seconds for one in firsts[: len(firsts) // 4 or 1])
    slow = [one.seconds >= SLOW * usual for one in firsts]
    # The cut with the fewest slow ones before it and fast ones behind it: as many as slow ones less fast ones before.
    cut = min(enumerate(accumulate((1 if one else -1 for one in slow), initial=0)), key=lambda one: one[1])[0]
    before, after = slow[:cut], slow[cut:]
    if min(len(before), len(after)) < FEWEST_EVENTS:
        return None
    if sum(before) > _MISPLACED * len(before) or after.count(False) > _MISPLACED * len(after):
        return None
    short, long = (median(one.pause for one in part) for part in (firsts[:cut], firsts[cut:]))
    if long < _APART * short:
        return None
    seconds = median(one.seconds for one in firsts[cut:])
    return _AfterPause(firsts[cut].pause, seconds, usual, len(after), len(spans), source)


def _signal(name: str, doc: str, pick: Callable[[_AfterPause], float]) -> Signal:
    def read(view: ModelView) -> Reading:
        found = view.once(_found)
        if found is None:
            spans, source = _spans(view)
            return (
                Reading.of(0.0, Unit.SECONDS, source) if spans else Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS)
            )
        return Reading.of(pick(found), Unit.SECONDS, found.source, events=found.slow)

    return Signal(name=name, unit=Unit.SECONDS, scope=Scope.MODEL, doc=doc, readers=(read,))


SLOW_AFTER_PAUSE = _signal(
    "slow_after_pause",
    "How long nobody has to ask for the next request to take three times as long or more; 0 where none does.",
    lambda found: found.pause,
)
AFTER_PAUSE_SECONDS = _signal(
    "after_pause_seconds",
    "Median time of a request after such a pause; 0 without one.",
    lambda found: found.seconds,
)
AWAKE_SECONDS = _signal(
    "awake_seconds",
    "Median time of a request after the shortest pauses; 0 where pauses make none slow.",
    lambda found: found.usual,
)
AFTER_PAUSE_EXCESS = _signal(
    "after_pause_excess",
    "What such pauses add to a request on average; 0 without one.",
    lambda found: (found.seconds - found.usual) * found.slow / found.requests,
)
