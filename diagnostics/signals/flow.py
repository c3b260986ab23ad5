"""Failures, and where requests get lost between the stages of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from diagnostics.signals.counting import absent
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView

# One failed ensemble request adds 2 to its failure counter: the error response and the final statistics (core,
# ensemble scheduler; Triton's own documentation shows the value 2).
ENSEMBLE_FAILURES_PER_REQUEST = 2.0
# Stages observed for lengths that differ by less are compared: a read dropped here and there is no unloaded model.
UNSEEN_PART = 0.1


def _ensemble(view: ModelView) -> bool:
    return view.model in view.server.graph.ensembles


def _failed(view: ModelView) -> Reading:
    for source in (METRICS, STATISTICS):
        delta = view.delta(source)
        if delta is None or Counter.FAILURE not in delta.values:
            continue
        doubled = _ensemble(view)
        failed = delta.values[Counter.FAILURE] - delta.values.get(Counter.CANCELED, 0.0)
        failed = max(failed / ENSEMBLE_FAILURES_PER_REQUEST - _canceled_inside(view), 0.0) if doubled else failed
        return Reading.of(failed, Unit.COUNT, source, estimated=doubled, events=failed, span=delta.seconds)
    return absent(view, METRICS, Unit.COUNT)


def _canceled_inside(view: ModelView) -> float:
    """Return how many requests of an ensemble were given up while a member held them: it counts them as failed."""
    deltas = [view.beside(member).delta(METRICS) for member in view.server.graph.ensembles[view.model or ""].models()]
    return sum(delta.values.get(Counter.CANCELED, 0.0) for delta in deltas if delta is not None)


def _rejected(view: ModelView) -> Reading:
    delta = view.delta(METRICS)
    if delta is None or Counter.REJECTED not in delta.values:
        return absent(view, METRICS, Unit.COUNT)
    value = delta.values[Counter.REJECTED]
    return Reading.of(value, Unit.COUNT, METRICS, events=value, span=delta.seconds)


def _failed_share(view: ModelView) -> Reading:
    failed, source = _failed(view), (METRICS if view.delta(METRICS) else STATISTICS)
    delta = view.delta(source)
    if failed.value is None or delta is None:
        return failed.with_unit(Unit.RATIO)
    everything = failed.value + delta.values.get(Counter.SUCCESS, 0.0)
    if everything <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, source)
    return Reading.of(
        failed.value / everything,
        Unit.RATIO,
        source,
        estimated=failed.estimated,
        events=failed.value,
        span=delta.seconds,
    )


@dataclass(frozen=True, slots=True)
class _Count:
    """Requests, over so many seconds of observation."""

    requests: float
    seconds: float


def _completed(view: ModelView, model: str, *, backlog: bool, failed: bool = False) -> _Count | None:
    """Return what a model completed, on request with the growth of what waits for it and with what failed there.

    None when not counted.
    """
    other = view.beside(model)
    for source in (METRICS, STATISTICS):
        delta = other.delta(source)
        if delta is not None and Counter.SUCCESS in delta.values:
            points = other.pending() if backlog else []
            growth = points[-1][1] - points[0][1] if len(points) >= 2 else 0.0
            ended = delta.values[Counter.SUCCESS] + (delta.values.get(Counter.FAILURE, 0.0) if failed else 0.0)
            return _Count(ended + growth, delta.seconds)
    return None


def _own_completed(view: ModelView) -> _Count | None:
    delta = view.delta(METRICS) or view.delta(STATISTICS)
    own = delta.values.get(Counter.SUCCESS) if delta else None
    return _Count(own, delta.seconds) if delta and own is not None else None


def only_ensemble(view: ModelView) -> Ensemble | None:
    """Return the ensemble that calls a model; None where none or several do."""
    callers = view.server.graph.callers(view.model or "")
    return callers[0] if len(callers) == 1 else None


def _lost_after(view: ModelView) -> Reading:
    """Completed here, but arrived at no next stage: answered with an error that Triton counts as success."""
    ensemble = only_ensemble(view)
    followers = ensemble.after(view.model or "") if ensemble else ()
    arrived = (_completed(view, model, backlog=True, failed=True) for model in followers)
    return _difference(view, _own_completed(view), arrived, min)


def _lost_before(view: ModelView) -> Reading:
    """Completed by the stage before, but neither completed nor waiting here: refused at this stage's queue."""
    ensemble = only_ensemble(view)
    sources = ensemble.before(view.model or "") if ensemble else ()
    here = _completed(view, view.model or "", backlog=True)
    lost = _difference(view, here, (_completed(view, model, backlog=False) for model in sources), min)
    return lost if lost.value is None else Reading.of(max(-lost.value, 0.0), Unit.COUNT, lost.source, estimated=True)


def _difference(
    view: ModelView,
    here: _Count | None,
    there: Iterable[_Count | None],
    choose: Callable[[list[float]], float],
) -> Reading:
    others = list(there)
    if not others:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, "configuration")
    present = [count for count in others if count is not None]
    if here is None or len(present) < len(others):
        return absent(view, METRICS, Unit.COUNT)
    # What was counted only part of the time, as by a model that was unloaded, looks lost where it was merely unseen.
    if any(abs(count.seconds - here.seconds) > UNSEEN_PART * here.seconds for count in present):
        return Reading.unknown(Missing.STALE, Unit.COUNT, METRICS)
    lost = here.requests - choose([count.requests for count in present])
    return Reading.of(lost, Unit.COUNT, f"configuration and {METRICS}", estimated=True)


def _signal(name: str, unit: Unit, doc: str, read: Callable[[ModelView], Reading]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(read,))


FAILED_REQUESTS = _signal(
    "failed_requests",
    Unit.COUNT,
    "Requests that failed, without those that callers gave up; an ensemble's counter is halved, as it counts twice.",
    _failed,
)
REJECTED_REQUESTS = _signal(
    "rejected_requests", Unit.COUNT, "Requests that outlived their queue policy's timeout.", _rejected
)
FAILED_SHARE = _signal("failed_share", Unit.RATIO, "Failed ÷ (failed + completed) requests.", _failed_share)
LOST_AFTER_STAGE = _signal(
    "lost_after_stage",
    Unit.COUNT,
    "Requests that this stage completed and the next never received, corrected for its backlog.",
    _lost_after,
)
LOST_BEFORE_STAGE = _signal(
    "lost_before_stage",
    Unit.COUNT,
    "Requests that the stage before completed and this stage never accepted, corrected for its backlog.",
    _lost_before,
)


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
