"""What Triton says of each model: traffic, where requests spend time, batches, instances, settings."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics import names
from diagnostics.signals.counting import mean_of, per, rate, total
from diagnostics.signals.signal import Missing, Read, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView
from diagnostics.wire.engine import engine_places, sample_of_page
from diagnostics.wire.model_config import ModelConfig
from diagnostics.wire.servers.catalogue import serving_kind

_BOTH = (STATISTICS, METRICS)
# A queue that is there in under a third of the reads comes and goes with bursts, as `engine-batch-limit` has it, too.
_OFTEN = 1 / 3


def _model_signal(name: str, unit: Unit, doc: str, *readers: Read, fix: str = "") -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=readers, fix=fix)


def _per_request(name: str, counter: Counter, doc: str) -> Signal:
    readers = (per(source, counter, Counter.SUCCESS, Unit.SECONDS) for source in _BOTH)
    return _model_signal(name, Unit.SECONDS, doc, *readers)


def _waiting_at_pages(view: ModelView) -> list[float]:
    """Return what waits at each page of a server that counts a model's requests in its own words; else nothing."""
    found = []
    for at, _, snapshot in view.server.snapshots:
        if view.start <= at <= view.end and serving_kind(snapshot.layout, view.model or "") is not None:
            sample = sample_of_page(snapshot, engine_places(snapshot.layout, view.model or "", view.version), at)
            if sample is not None and sample.waiting is not None:
                found.append(sample.waiting)
    return found


def _counted_or_gauged(counter: Counter, *, waiting: bool) -> Read:
    """Return a reader of a part of the requests' time: as counted, else by Little's law where only the whole is.

    What waits at few reads counts as nothing: a gauge is read once a second, and requests are shorter.
    """
    stated = per(METRICS, counter, Counter.SUCCESS, Unit.SECONDS)

    def read(view: ModelView) -> Reading:
        counted, delta, gauged = stated(view), view.delta(METRICS), view.once(_waiting_at_pages)
        if counted.missing is not Missing.DISABLED or not gauged:
            return counted
        if delta is None or Counter.REQUEST_SECONDS not in delta.values:
            return counted
        whole = delta.values[Counter.REQUEST_SECONDS]
        often = sum(1 for waits in gauged if waits > 0) >= _OFTEN * len(gauged)
        waited = min(sum(gauged) / len(gauged) * delta.seconds, whole) if often else 0.0
        part = waited if waiting else whole - waited
        return mean_of(part, delta.values[Counter.SUCCESS], Unit.SECONDS, METRICS, delta, estimated=True)

    return read


REQUESTS = _model_signal(
    "requests", Unit.COUNT, "Requests completed without failure.", *(total(s, Counter.SUCCESS) for s in _BOTH)
)
REQUEST_RATE = _model_signal(
    "request_rate",
    Unit.PER_SECOND,
    "Completed requests per second.",
    *(rate(s, Counter.SUCCESS) for s in _BOTH),
)
REQUEST_SECONDS = _per_request("request_seconds", Counter.REQUEST_SECONDS, "Mean time from arrival to release.")
QUEUE_SECONDS = _model_signal(
    "queue_seconds",
    Unit.SECONDS,
    "Mean time a request waits for an instance.",
    per(STATISTICS, Counter.QUEUE_SECONDS, Counter.SUCCESS, Unit.SECONDS),
    _counted_or_gauged(Counter.QUEUE_SECONDS, waiting=True),
)
INPUT_SECONDS = _per_request("input_seconds", Counter.INPUT_SECONDS, "Mean time spent preparing a request's inputs.")
COMPUTE_SECONDS = _model_signal(
    "compute_seconds",
    Unit.SECONDS,
    "Mean time a request spends executing, its whole batch's time.",
    per(STATISTICS, Counter.INFER_SECONDS, Counter.SUCCESS, Unit.SECONDS),
    _counted_or_gauged(Counter.INFER_SECONDS, waiting=False),
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


def _pending(view: ModelView) -> Reading:
    points = view.pending()
    if not points:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    values = [value for _, value in points]
    return Reading.of(
        sum(values) / len(values), Unit.COUNT, METRICS, low=min(values), high=max(values), events=len(values)
    )


PENDING = _model_signal("pending_requests", Unit.COUNT, "Requests waiting, mean over the reads.", _pending)


def _arrival_rate(view: ModelView) -> Reading:
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


_MICROSECOND = 1e-6


def _summaries(view: ModelView) -> Reading:
    if not view.server.snapshots:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(float(view.server.exports(f"{names.REQUEST_SUMMARY}_count")), Unit.COUNT, METRICS)


SUMMARIES = Signal(
    name="summary_latencies",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="1 when the server keeps latency summaries, else 0.",
    readers=(_summaries,),
)


def _summarized(view: ModelView) -> Reading:
    labels = {names.MODEL: view.model or ""} | ({names.VERSION: view.version} if view.version else {})
    points = view.gauge(f"{names.REQUEST_SUMMARY}_count", labels)
    if len(points) < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(max(points[-1][1] - points[0][1], 0.0), Unit.COUNT, METRICS)


SUMMARIZED_REQUESTS = Signal(
    name="summarized_requests",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Requests that the latency summary counted: it goes on where `counter_latencies=false` stops the counters.",
    readers=(_summarized,),
)


_CONFIGURATION = "configuration"
_FIX = "let the tool reach the HTTP or gRPC port: GET v2/models/<model>/config"


def _setting(name: str, doc: str, pick: Callable[[ModelConfig], float]) -> Signal:
    def read(view: ModelView) -> Reading:
        if view.config is None:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, _CONFIGURATION)
        return Reading.of(pick(view.config), Unit.COUNT, _CONFIGURATION)

    return Signal(name=name, unit=Unit.COUNT, scope=Scope.MODEL, doc=doc, readers=(read,), fix=_FIX)


PRIORITY_LEVELS = _setting(
    "priority_levels",
    "Priority levels of the dynamic batcher; 0 when it has none.",
    lambda config: float(config.dynamic_batching.priority_levels) if config.dynamic_batching else 0.0,
)
SEQUENCE_BATCHING = _setting(
    "sequence_batching",
    "1 when the sequence batcher schedules the model, else 0.",
    lambda config: float(config.sequence_batching),
)


def _queue_quantile(view: ModelView, quantile: float) -> float | None:
    labels = {names.MODEL: view.model or "", names.QUANTILE: f"{quantile:g}"}
    if view.version is not None:
        labels[names.VERSION] = view.version
    points = view.gauge(names.QUEUE_SUMMARY, labels)
    return points[-1][1] if points else None


def _spread(view: ModelView) -> Reading:
    high, middle = _queue_quantile(view, 0.95), _queue_quantile(view, 0.5)
    if high is None or middle is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    # A median under a millisecond is no wait at all, and a ratio to it says nothing.
    return Reading.of(high / max(middle, 1000.0), Unit.COUNT, METRICS, span=60.0)


QUEUE_SPREAD = Signal(
    name="queue_spread",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="95th percentile of the queue time ÷ its median (at least 1 ms), over the last 60 s.",
    readers=(_spread,),
    fix="start Triton with --metrics-config summary_latencies=true for as long as you look",
)
