"""What Triton says of each model: traffic, where requests spend time, batches, instances, settings."""

from __future__ import annotations

from diagnostics.signals.counting import per, rate, total
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Read, Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, ModelView

_BOTH = (STATISTICS, METRICS)


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
