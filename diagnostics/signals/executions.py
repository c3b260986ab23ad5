"""What executions cost their instances: time, busy share, and how time grows with the batch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from diagnostics.signals.counting import ENOUGH_EVENTS, absent, mean_of
from diagnostics.signals.settings import (
    CONFIGURATION,
    INSTANCES,
    compute_seconds,
    executed_requests,
    one_request_per_execution,
)
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.tuning.service import DISPATCH_GAP, BatchPoint, ServiceTime, constant, fit
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, Delta, ModelView

STATISTICS_FIX = "let the tool reach the HTTP or gRPC port: GET v2/models/stats"


def _model_signal(name: str, unit: Unit, doc: str, *readers: Read, fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=readers, fix=fix)


def _execution_seconds(view: ModelView) -> Reading:
    delta = view.delta(STATISTICS)
    if delta is None or not delta.batches:
        return absent(view, STATISTICS, Unit.SECONDS)
    executions = sum(batch.executions for batch in delta.batches.values())
    seconds = delta.occupied
    return mean_of(seconds, executions, Unit.SECONDS, STATISTICS, delta)


def _execution_seconds_from_requests(view: ModelView) -> Reading:
    """Mean time per request is the mean per execution only if every batch holds one request; else larger."""
    delta = view.delta(METRICS)
    if delta is None or not _has_compute(delta):
        return absent(view, METRICS, Unit.SECONDS)
    return mean_of(
        compute_seconds(delta),
        executed_requests(delta),
        Unit.SECONDS,
        METRICS,
        delta,
        estimated=not one_request_per_execution(delta),
    )


EXECUTION_SECONDS = _model_signal(
    "execution_seconds",
    Unit.SECONDS,
    "Mean time one execution occupies its instance: input + infer + output.",
    _execution_seconds,
    _execution_seconds_from_requests,
)


def _busy_share(view: ModelView) -> Reading:
    """Σ batch_stats seconds plus the dispatch gap, ÷ (span × instances); counters move on completion (±1 each)."""
    instances, delta = INSTANCES.read(view), view.delta(STATISTICS)
    if instances.value is None:
        return Reading.unknown(instances.missing or Missing.NOT_EXPORTED, Unit.RATIO, instances.source)
    if delta is None or not delta.batches:
        return absent(view, STATISTICS, Unit.RATIO)
    executions = sum(batch.executions for batch in delta.batches.values())
    busy = delta.occupied
    if executions <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    lanes = delta.seconds * instances.value
    share = (busy + executions * DISPATCH_GAP) / lanes
    edge = busy / executions / delta.seconds
    return Reading.of(
        share,
        Unit.RATIO,
        f"{CONFIGURATION} and {STATISTICS}",
        low=max(share - edge, 0.0),
        high=share + edge,
        estimated=edge > 0.1,
        events=executions,
        span=delta.seconds,
    )


def _busy_share_bound(view: ModelView) -> Reading:
    """(Δcompute ÷ Δrequests) × Δexecutions: exact if no batch held two requests, else an upper bound."""
    instances, delta = INSTANCES.read(view), view.delta(METRICS)
    if instances.value is None:
        return Reading.unknown(instances.missing or Missing.NOT_EXPORTED, Unit.RATIO, instances.source)
    if delta is None or not _has_compute(delta) or Counter.EXECUTIONS not in delta.values:
        return absent(view, METRICS, Unit.RATIO)
    requests, executions = executed_requests(delta), delta.values[Counter.EXECUTIONS]
    if requests <= 0 or executions <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    compute, lanes = compute_seconds(delta), delta.seconds * instances.value
    per_request = compute / requests
    bound = (per_request * executions + executions * DISPATCH_GAP) / lanes
    exact = one_request_per_execution(delta)
    # Every request of a batch books the whole batch, so the true time is at least the sum ÷ the largest batch.
    least = bound if exact else compute / max(view.config.max_batch_size if view.config else 1, 1) / lanes
    edge = per_request / delta.seconds
    return Reading.of(
        min(bound, 1.0) if not exact else bound,
        Unit.RATIO,
        f"{CONFIGURATION} and {METRICS}",
        low=max(min(least, bound) - edge, 0.0),
        high=bound + edge,
        estimated=not exact or edge > 0.1,
        events=executions,
        span=delta.seconds,
    )


INSTANCE_BUSY_SHARE = _model_signal(
    "instance_busy_share",
    Unit.RATIO,
    "Share of the time in which the model's instances execute.",
    _busy_share,
    _busy_share_bound,
    fix=STATISTICS_FIX,
)


# A wait that is worth a change, where earlier requests hardly waited.
_WAITS = 0.005
# What is left of all queue time before requests began to wait is no wait of its own.
_NEARLY_ALL = 0.9
# A wait that is there for so long a part of the window is no burst.
_LASTS = 1 / 3
_FEWEST_STEPS = 4


def _waiting_seconds(source: str) -> Read:
    """Return a reader of the seconds up to the end of the span in which requests waited at each read, not before."""

    def read(view: ModelView) -> Reading:
        steps = [step for step in view.steps(source) if {Counter.SUCCESS, Counter.QUEUE_SECONDS} <= set(step.values)]
        waiting = list(takewhile(_waits, reversed(steps)))
        if not 0 < len(waiting) < len(steps) or len(view.tables(source)) != 1:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, source)
        seconds, requests, queued = (sum(map(of, waiting)) for of in (_seconds, _requests, _queued))
        long = seconds >= _LASTS * view.seconds and len(waiting) >= _FEWEST_STEPS and requests >= ENOUGH_EVENTS
        if not long or queued < _NEARLY_ALL * sum(map(_queued, steps)):
            return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.SECONDS, source)
        return Reading.of(view.end - waiting[-1].start, Unit.SECONDS, source, events=requests)

    return read


def _waits(step: CounterStep) -> bool:
    return _requests(step) > 0 and _queued(step) >= _WAITS * _requests(step)


def _seconds(step: CounterStep) -> float:
    return step.seconds


def _requests(step: CounterStep) -> float:
    return step.values[Counter.SUCCESS]


def _queued(step: CounterStep) -> float:
    return step.values[Counter.QUEUE_SECONDS]


WAITING_SECONDS = _model_signal(
    "waiting_seconds",
    Unit.SECONDS,
    "How long, up to the end of the window, requests have waited at each read, where they hardly waited before; "
    "unknown where that is less than a third of it, or all of it.",
    _waiting_seconds(STATISTICS),
    _waiting_seconds(METRICS),
)


def service_time(view: ModelView) -> ServiceTime | None:
    """Return how long an execution takes by batch size, fitted; None when nothing executed or was read.

    Without the batch table it is known only where every batch held one request: then at that many items, any slope.
    """
    delta = view.delta(STATISTICS)
    if delta is not None and delta.batches:
        points = [
            BatchPoint(size=size, executions=round(batch.executions), seconds=batch.seconds / batch.executions)
            for size, batch in delta.batches.items()
            if batch.executions >= 1 and batch.seconds > 0
        ]
        return fit(points) if points else None
    mean = _execution_seconds_from_requests(view)
    return constant(mean.value, _items_together(view.delta(METRICS))) if mean.value and not mean.estimated else None


def _items_together(delta: Delta | None) -> int:
    """Return the items of a mean execution, 1 where they are not counted."""
    values: Mapping[Counter, float] = delta.values if delta else {}
    return max(round(values.get(Counter.INFERENCES, 0.0) / max(values.get(Counter.EXECUTIONS, 0.0), 1.0)), 1)


def _marginal_cost(view: ModelView) -> Reading:
    service = service_time(view)
    if service is None:
        return absent(view, STATISTICS, Unit.RATIO)
    if len(service.sizes_seen) < 2:
        return Reading.unknown(Missing.TOO_FEW_EVENTS, Unit.RATIO, STATISTICS)
    cost = service.marginal_cost
    return Reading.of(
        cost.value,
        Unit.RATIO,
        STATISTICS,
        low=cost.low,
        high=cost.high,
        estimated=service.estimated,
        events=service.executions,
    )


BATCH_MARGINAL_COST = _model_signal(
    "batch_marginal_cost",
    Unit.RATIO,
    "What one more item in a batch costs, as a share of a batch of one: 0 is free, 1 is no gain from batching.",
    _marginal_cost,
    fix=STATISTICS_FIX,
)


def _has_compute(delta: Delta) -> bool:
    return Counter.SUCCESS in delta.values and Counter.INFER_SECONDS in delta.values
