"""What the response cache of a model answers, and what it takes to be asked."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.signals.counting import ENOUGH_EVENTS, absent
from diagnostics.signals.signal import Missing, Reading, Scope, Signal, Subject
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, Delta, ModelView


def _reader(source: str, unit: Unit, compute: Callable[[Delta], float]) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        delta = view.delta(source)
        if delta is None:
            return absent(view, source, unit)
        served = delta.values.get(Counter.SUCCESS, 0.0)
        if served <= 0:
            return Reading.unknown(Missing.IDLE, unit, source)
        return Reading.of(compute(delta), unit, source, events=served, span=delta.seconds)

    return read


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[Delta], float]) -> Signal:
    readers = tuple(_reader(source, unit, compute) for source in (STATISTICS, METRICS))
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=readers)


def _counted(delta: Delta, counter: Counter) -> float:
    return delta.values.get(counter, 0.0)


CACHE_LOOKUPS = _signal(
    "cache_lookups",
    Unit.COUNT,
    "Requests that were looked up in the response cache; 0 without one.",
    lambda delta: _counted(delta, Counter.CACHE_HITS) + _counted(delta, Counter.CACHE_MISSES),
)
CACHE_HITS = _signal(
    "cache_hits",
    Unit.COUNT,
    "Requests that were answered from the response cache.",
    lambda delta: _counted(delta, Counter.CACHE_HITS),
)
CACHE_MISS_SECONDS = _signal(
    "cache_miss_seconds",
    Unit.SECONDS,
    "Time of lookups in vain and of insertions into the response cache, per request.",
    lambda delta: _counted(delta, Counter.CACHE_MISS_SECONDS) / delta.values[Counter.SUCCESS],
)


def never_hits(read: Callable[[Signal, Subject], Reading], on: Subject) -> bool:
    """Return whether enough requests were looked up in a model's response cache, and none was answered from it."""
    return (read(CACHE_LOOKUPS, on).value or 0.0) >= ENOUGH_EVENTS and read(CACHE_HITS, on).value == 0
