"""Whether what users ask for changed inside the window: how much arrives, how large requests are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

from diagnostics.signals.arrivals import ArrivalBin, arrivals_of
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.onset import FEWEST_OUTSIDE, MOST_STEPS, rise
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, ModelView, increase

CLIENT = "client"
# A request has an item or more. Of fewer, requests were answered without an execution (response cache): their size is
# not counted. A tenth is what may be under way at either end of a stretch.
_LEAST_ITEMS = 0.9


@dataclass(frozen=True, slots=True)
class Shift:
    """A quantity before and after it changed for good, and the mean latency (seconds) on both sides.

    `z` is the standard score of the change; infinity does not occur.
    """

    before: float
    after: float
    latency_before: float
    latency_after: float
    z: float
    source: str


def rate_shift(view: ModelView) -> Shift | Missing | None:
    """Return the rise of the arrival rate that lasts to the end; None when there is none, else why it is unknown."""
    arrivals = arrivals_of(view)
    if isinstance(arrivals, Missing):
        return arrivals
    bins = _at_most(arrivals.bins, MOST_STEPS)
    found = rise([one.count / one.seconds for one in bins])
    counted = rise([one.count for one in bins])  # a clock that was set alters the rates, not the counts
    if found is None or counted is None or min(found.last, counted.last) < len(bins):
        return None
    return _shift(bins[: found.first], bins[found.first :], arrivals.source)


def _at_most(bins: Sequence[ArrivalBin], most: int) -> list[ArrivalBin]:
    by = -(-len(bins) // most)
    groups = [bins[i : i + by] for i in range(0, len(bins) - by + 1, by)]
    return [_joined(group) for group in groups]


def _joined(bins: Sequence[ArrivalBin]) -> ArrivalBin:
    return ArrivalBin(sum(b.seconds for b in bins), sum(b.count for b in bins), _latency(bins))


def _latency(bins: Sequence[ArrivalBin]) -> float | None:
    timed = [(one.count, one.latency) for one in bins if one.latency is not None and one.count > 0]
    weight = sum(count for count, _ in timed)
    return sum(count * latency for count, latency in timed) / weight if weight else None


def _shift(before: Sequence[ArrivalBin], after: Sequence[ArrivalBin], source: str) -> Shift | None:
    then, now = _joined(before), _joined(after)
    if then.latency is None or now.latency is None or len(before) < FEWEST_OUTSIDE:
        return None
    rates = then.count / then.seconds, now.count / now.seconds
    # The variance of a difference of rates is that of its counts times how bunched they are on both sides.
    spread = sqrt(_bunching(before) * then.count / then.seconds**2 + _bunching(after) * now.count / now.seconds**2)
    return Shift(*rates, then.latency, now.latency, (rates[1] - rates[0]) / max(spread, 1e-9), source)


def _bunching(bins: Sequence[ArrivalBin]) -> float:
    """Return variance ÷ mean of the counts, at least 1: bursts must not pass for a change."""
    mean = sum(one.count for one in bins) / len(bins)
    if mean <= 0 or len(bins) < 2:
        return 1.0
    return max(sum((one.count - mean) ** 2 for one in bins) / (len(bins) - 1) / mean, 1.0)


def size_shift(view: ModelView) -> Shift | Missing | None:
    """Return the rise of items per request at the entry's first stage that lasts to the end, with its latency."""
    ensemble = view.server.graph.ensembles.get(view.model or "")
    first = ensemble.models()[0] if ensemble and ensemble.models() else view.model
    for source in (STATISTICS, METRICS):
        steps = [step for step in view.beside(first or "").steps(source) if step.values.get(Counter.SUCCESS)]
        if len(steps) >= 2 and all(Counter.INFERENCES in step.values for step in steps):
            return _size_shift(view, steps[-MOST_STEPS:], source)
    return Missing.TOO_FEW_EVENTS


def _size_shift(view: ModelView, steps: Sequence[CounterStep], source: str) -> Shift | Missing | None:
    sizes = [step.values[Counter.INFERENCES] / step.values[Counter.SUCCESS] for step in steps]
    found = rise(sizes)
    if found is None or found.last < len(sizes):
        return None
    if found.outside < _LEAST_ITEMS:
        return Missing.NOT_EXPORTED
    at, latencies = steps[found.first].start, view.beside(view.model or "").steps(source)
    then, now = (_mean_latency([step for step in latencies if (step.start >= at) is late]) for late in (False, True))
    if then is None or now is None:
        return None
    return Shift(found.outside, found.inside, then, now, found.t, source)


def _mean_latency(steps: Sequence[CounterStep]) -> float | None:
    requests = increase(steps, Counter.SUCCESS)
    seconds = increase(steps, Counter.REQUEST_SECONDS)
    return seconds / requests if requests > 0 else None


def _reader(
    find: Callable[[ModelView], Shift | Missing | None], unit: Unit, pick: Callable[[Shift], float], none: float
) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        found = find(view)
        if isinstance(found, Missing):
            return Reading.unknown(found, unit)
        if found is None:
            return Reading.of(none, unit, METRICS)
        return Reading.of(pick(found), unit, found.source)

    return read


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.ENTRY, doc=doc, readers=(read,))


RATE_SHIFT = _signal(
    "rate_shift",
    Unit.COUNT,
    "Arrival rate after ÷ before it rose for good inside the window; 1 when it did not.",
    _reader(rate_shift, Unit.COUNT, lambda found: found.after / max(found.before, 1e-9), 1.0),
)
RATE_SHIFT_CERTAINTY = _signal(
    "rate_shift_certainty",
    Unit.COUNT,
    "Standard score of that rise, given how bunched arrivals are on both sides.",
    _reader(rate_shift, Unit.COUNT, lambda found: found.z, 0.0),
)
RATE_SHIFT_SECONDS = _signal(
    "rate_shift_seconds",
    Unit.SECONDS,
    "Mean latency after minus before the arrival rate rose.",
    _reader(rate_shift, Unit.SECONDS, lambda found: found.latency_after - found.latency_before, 0.0),
)
SIZE_SHIFT = _signal(
    "size_shift",
    Unit.COUNT,
    "Items per request after ÷ before they rose for good inside the window; 1 when they did not.",
    _reader(size_shift, Unit.COUNT, lambda found: found.after / max(found.before, 1e-9), 1.0),
)
SIZE_SHIFT_SECONDS = _signal(
    "size_shift_seconds",
    Unit.SECONDS,
    "Mean latency after minus before requests grew.",
    _reader(size_shift, Unit.SECONDS, lambda found: found.latency_after - found.latency_before, 0.0),
)
