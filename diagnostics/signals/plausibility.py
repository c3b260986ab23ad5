"""Numbers that cannot be true: jumps no server makes, and members counted less often than what calls them."""

from __future__ import annotations

from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView


def _dropped(view: ModelView) -> Reading:
    found, source = 0, METRICS
    for origin in (STATISTICS, METRICS):
        # Where no increase at all is possible, there is no sum of any.
        dropped = sum(view.start < at <= view.end for table in view.tables(origin) for at in table.dropped_at)
        if dropped > found:
            found, source = dropped, origin
    if not any(view.server.reads.values()):
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT)
    return Reading.of(float(found), Unit.COUNT, source)


IMPLAUSIBLE_STEPS = Signal(
    name="implausible_steps",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Reads whose increase was left out: time that runs backwards, or more than any request can take.",
    readers=(_dropped,),
)


def _counted(view: ModelView, model: str) -> float | None:
    other = view.beside(model)
    delta = other.delta(METRICS) or other.delta(STATISTICS)
    return delta.values.get(Counter.SUCCESS) if delta else None


def _share_of_callers(view: ModelView) -> Reading:
    """Requests of a member ÷ those that its ensembles completed; each completed one has called every member."""
    callers = view.server.graph.callers(view.model or "")
    cached = any(config.response_cache for config in view.server.configs.values())
    completed = [_counted(view, caller.name) for caller in callers]
    expected = sum(value for value in completed if value is not None)
    own = _counted(view, view.model or "")
    if not callers or cached or own is None or expected <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    return Reading.of(own / expected, Unit.RATIO, METRICS, events=expected)


COUNTED_SHARE = Signal(
    name="counted_share",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Requests counted at a member ÷ those that its ensembles completed; at least 1 where counters tell the truth.",
    readers=(_share_of_callers,),
)
