"""What Triton says of each model: traffic, where requests spend time, batches, instances, settings."""

from __future__ import annotations

from diagnostics import names
from diagnostics.signals.counting import absent, mean_of, per, rate, total
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Read, Signal
from diagnostics.signals.subject import Scope
from diagnostics.tuning.service import DISPATCH_GAP, BatchPoint, ServiceTime, constant, fit
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, Delta, View

_BOTH = (STATISTICS, METRICS)
_CONFIGURATION = "configuration"
_STATISTICS_FIX = "let the tool reach the HTTP or gRPC port: GET v2/models/stats"
_CONFIG_FIX = "let the tool reach the HTTP or gRPC port: GET v2/models/<model>/config"


def _model_signal(name: str, unit: Unit, doc: str, *readers: Read, fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=readers, fix=fix)


def _per_request(name: str, counter: Counter, doc: str) -> Signal:
    readers = (per(source, counter, Counter.SUCCESS, Unit.SECONDS) for source in _BOTH)
    return _model_signal(name, Unit.SECONDS, doc, *readers)


REQUESTS = _model_signal(
    "requests", Unit.COUNT, "Requests completed without failure.", *(total(s, Counter.SUCCESS) for s in _BOTH)
)
REQUEST_RATE = _model_signal(
    "request_rate",
    Unit.PER_SECOND,
    "Completed requests per second.",
    *(rate(s, Counter.SUCCESS) for s in _BOTH),
)
EXECUTION_RATE = _model_signal(
    "execution_rate",
    Unit.PER_SECOND,
    "Model executions per second.",
    *(rate(s, Counter.EXECUTIONS) for s in _BOTH),
)
REQUEST_SECONDS = _per_request("request_seconds", Counter.REQUEST_SECONDS, "Mean time from arrival to release.")
QUEUE_SECONDS = _per_request("queue_seconds", Counter.QUEUE_SECONDS, "Mean time a request waits for an instance.")
INPUT_SECONDS = _per_request("input_seconds", Counter.INPUT_SECONDS, "Mean time spent preparing a request's inputs.")
COMPUTE_SECONDS = _per_request(
    "compute_seconds", Counter.INFER_SECONDS, "Mean time a request spends executing, its whole batch's time."
)
OUTPUT_SECONDS = _per_request("output_seconds", Counter.OUTPUT_SECONDS, "Mean time spent on a request's outputs.")
BATCH_SIZE = _model_signal(
    "batch_size",
    Unit.COUNT,
    "Mean items per execution: inference count ÷ execution count.",
    *(per(source, Counter.INFERENCES, Counter.EXECUTIONS, Unit.COUNT) for source in _BOTH),
)
CLIENT_BATCH_SIZE = _model_signal(
    "client_batch_size",
    Unit.COUNT,
    "Mean items per request, as the client sent them: inference count ÷ requests.",
    *(per(source, Counter.INFERENCES, Counter.SUCCESS, Unit.COUNT) for source in _BOTH),
)


def _execution_seconds(view: View) -> Reading:
    delta = view.delta(STATISTICS)
    if delta is None or not delta.batches:
        return absent(view, STATISTICS, Unit.SECONDS)
    executions = sum(batch.executions for batch in delta.batches.values())
    seconds = sum(batch.seconds for batch in delta.batches.values())
    return mean_of(seconds, executions, Unit.SECONDS, STATISTICS, delta)


def _execution_seconds_from_requests(view: View) -> Reading:
    """Mean time per request is the mean per execution only if every batch holds one request; else larger."""
    delta = view.delta(METRICS)
    if delta is None or not _has_compute(delta):
        return absent(view, METRICS, Unit.SECONDS)
    return mean_of(
        _compute(delta),
        delta.values[Counter.SUCCESS],
        Unit.SECONDS,
        METRICS,
        delta,
        estimated=not _one_request_per_execution(delta),
    )


EXECUTION_SECONDS = _model_signal(
    "execution_seconds",
    Unit.SECONDS,
    "Mean time one execution occupies its instance: input + infer + output.",
    _execution_seconds,
    _execution_seconds_from_requests,
)


def _instances(view: View) -> Reading:
    if view.config is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, _CONFIGURATION)
    count = 0
    for group in view.groups:
        if group.gpus:
            count += group.count * len(group.gpus)
        elif group.kind == names.KIND_GPU:
            gpus = view.visible_gpus()
            if gpus is None:
                return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, _CONFIGURATION)
            count += group.count * gpus
        else:
            count += group.count
    if count == 0:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, _CONFIGURATION)
    return Reading.of(count, Unit.COUNT, _CONFIGURATION)


INSTANCES = _model_signal(
    "instances",
    Unit.COUNT,
    "Model instances per version: the sum over active instance groups of count × GPUs.",
    _instances,
    fix=_CONFIG_FIX,
)


def _busy_share(view: View) -> Reading:
    """Σ batch_stats seconds plus the dispatch gap, ÷ (span × instances); counters move on completion (±1 each)."""
    instances, delta = _instances(view), view.delta(STATISTICS)
    if instances.value is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _CONFIGURATION)
    if delta is None or not delta.batches:
        return absent(view, STATISTICS, Unit.RATIO)
    executions = sum(batch.executions for batch in delta.batches.values())
    busy = sum(batch.seconds for batch in delta.batches.values())
    if executions <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, STATISTICS)
    lanes = delta.seconds * instances.value
    share = (busy + executions * DISPATCH_GAP) / lanes
    edge = busy / executions / delta.seconds
    return Reading.of(
        share,
        Unit.RATIO,
        f"{_CONFIGURATION} and {STATISTICS}",
        low=max(share - edge, 0.0),
        high=share + edge,
        estimated=edge > 0.1,
        events=executions,
        span=delta.seconds,
    )


def _busy_share_bound(view: View) -> Reading:
    """(Δcompute ÷ Δrequests) × Δexecutions: exact if no batch held two requests, else an upper bound."""
    instances, delta = _instances(view), view.delta(METRICS)
    if instances.value is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _CONFIGURATION)
    if delta is None or not _has_compute(delta) or Counter.EXECUTIONS not in delta.values:
        return absent(view, METRICS, Unit.RATIO)
    requests, executions = delta.values[Counter.SUCCESS], delta.values[Counter.EXECUTIONS]
    if requests <= 0 or executions <= 0:
        return Reading.unknown(Missing.IDLE, Unit.RATIO, METRICS)
    lanes = delta.seconds * instances.value
    per_request = _compute(delta) / requests
    bound = (per_request * executions + executions * DISPATCH_GAP) / lanes
    exact = _one_request_per_execution(delta)
    # Every request of a batch books the whole batch, so the true time is at least the sum ÷ the largest batch.
    least = bound if exact else _compute(delta) / max(view.config.max_batch_size if view.config else 1, 1) / lanes
    edge = per_request / delta.seconds
    return Reading.of(
        min(bound, 1.0) if not exact else bound,
        Unit.RATIO,
        f"{_CONFIGURATION} and {METRICS}",
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
    fix=_STATISTICS_FIX,
)


def _setting(name: str, unit: Unit, doc: str, pick: str) -> Signal:
    def read(view: View) -> Reading:
        if view.config is None:
            return Reading.unknown(Missing.NOT_EXPORTED, unit, _CONFIGURATION)
        return Reading.of(_SETTINGS[pick](view), unit, _CONFIGURATION)

    return _model_signal(name, unit, doc, read, fix=_CONFIG_FIX)


def _batching(view: View) -> float:
    return 1.0 if view.config is not None and view.config.dynamic_batching is not None else 0.0


def _delay(view: View) -> float:
    batching = view.config.dynamic_batching if view.config else None
    return batching.max_queue_delay_seconds if batching else 0.0


def _queue_limit(view: View) -> float:
    batching = view.config.dynamic_batching if view.config else None
    return float(batching.queue_policy.max_queue_size) if batching else 0.0


def _warmups(view: View) -> float:
    return float(len(view.config.warmups)) if view.config else 0.0


_SETTINGS = {
    "max_batch_size": lambda view: float(max(view.config.max_batch_size, 1)),
    "batching": _batching,
    "delay": _delay,
    "queue_limit": _queue_limit,
    "warmups": _warmups,
}
MAX_BATCH_SIZE = _setting(
    "max_batch_size",
    Unit.COUNT,
    "Largest batch that Triton may form; 1 when it forms none.",
    "max_batch_size",
)
DYNAMIC_BATCHING = _setting("dynamic_batching", Unit.COUNT, "1 when dynamic batching is on, else 0.", "batching")
BATCH_DELAY = _setting("max_queue_delay", Unit.SECONDS, "How long a request may wait for others to join.", "delay")
QUEUE_LIMIT = _setting("max_queue_size", Unit.COUNT, "Requests a queue may hold; 0 is no limit.", "queue_limit")
WARMUPS = _setting("model_warmup", Unit.COUNT, "Warm-up samples run before an instance serves.", "warmups")


def _pending(view: View) -> Reading:
    points = view.pending()
    if not points:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    values = [value for _, value in points]
    return Reading.of(
        sum(values) / len(values), Unit.COUNT, METRICS, low=min(values), high=max(values), events=len(values)
    )


PENDING = _model_signal("pending_requests", Unit.COUNT, "Requests waiting, mean over the reads.", _pending)


def _arrival_rate(view: View) -> Reading:
    """Completions plus the growth of the backlog; without the pending gauge, completions alone are a lower bound."""
    completed = REQUEST_RATE.read(view)
    if completed.value is None or not completed.span:
        return completed
    points = view.pending()
    if len(points) < 2:
        return Reading.of(completed.value, Unit.PER_SECOND, completed.source, estimated=True, events=completed.events)
    growth = (points[-1][1] - points[0][1]) / completed.span
    return Reading.of(
        max(completed.value + growth, 0.0),
        Unit.PER_SECOND,
        f"{METRICS} and {STATISTICS}" if completed.source == STATISTICS else METRICS,
        events=completed.events,
        span=completed.span,
    )


ARRIVAL_RATE = _model_signal(
    "arrival_rate",
    Unit.PER_SECOND,
    "Requests per second that arrive: completions + backlog growth.",
    _arrival_rate,
)


def service_time(view: View) -> ServiceTime | None:
    """Return how long an execution takes by batch size, fitted; None when nothing executed or was read.

    Without the batch table it is known only where every batch held one request: then batch size 1, any slope.
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
    return constant(mean.value) if mean.value and not mean.estimated else None


def _marginal_cost(view: View) -> Reading:
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
    fix=_STATISTICS_FIX,
)


def _has_compute(delta: Delta) -> bool:
    return Counter.SUCCESS in delta.values and Counter.INFER_SECONDS in delta.values


def _compute(delta: Delta) -> float:
    parts = (Counter.INPUT_SECONDS, Counter.INFER_SECONDS, Counter.OUTPUT_SECONDS)
    return sum(delta.values.get(part, 0.0) for part in parts)


def _one_request_per_execution(delta: Delta) -> bool:
    # Two per cent of slack: reads fall between a batch's executions and its requests' completions.
    executions = delta.values.get(Counter.EXECUTIONS, 0.0)
    return executions > 0 and delta.values[Counter.SUCCESS] <= executions * 1.02
