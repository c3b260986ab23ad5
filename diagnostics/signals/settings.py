"""How a model is configured: instances, batching, queue policy, warm-up; from the effective configuration."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics import names
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, CounterStep, Delta, ModelView
from diagnostics.wire.model_config import ModelConfig

CONFIGURATION = "configuration"
# No server runs as many of one model; the scheduler model's time grows with their number.
MOST_INSTANCES = 1024
CONFIG_FIX = "let the tool reach the HTTP or gRPC port: GET v2/models/<model>/config"


def _instances(view: ModelView) -> Reading:
    """A configuration is another's, or of another time, where executions took longer than its instances have had."""
    found = _configured_instances(view)
    if found.value is not None and view.config is not None:
        source = took_more(view, view.config, found.value)
        if source is not None:
            return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, f"{CONFIGURATION} and {source}")
    return found


def _configured_instances(view: ModelView) -> Reading:
    if view.config is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CONFIGURATION)
    count = 0
    for group in view.groups:
        if group.gpus:
            count += group.count * len(group.gpus)
        elif group.kind == names.KIND_GPU:
            gpus = view.visible_gpus()
            if gpus is None:
                return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CONFIGURATION)
            count += group.count * gpus
        else:
            count += group.count
    if count == 0:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, CONFIGURATION)
    if count > MOST_INSTANCES:
        return Reading.unknown(Missing.CONFLICTING, Unit.COUNT, CONFIGURATION)
    return Reading.of(count, Unit.COUNT, CONFIGURATION)


INSTANCES = Signal(
    name="instances",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Model instances per version: the sum over active instance groups of count × GPUs; unknown where executions "
    "took more time than these have.",
    readers=(_instances,),
    fix=CONFIG_FIX,
)


def _setting(name: str, unit: Unit, doc: str, pick: Callable[[ModelConfig], float], fix: str = CONFIG_FIX) -> Signal:
    def read(view: ModelView) -> Reading:
        if view.config is None:
            return Reading.unknown(Missing.NOT_EXPORTED, unit, CONFIGURATION)
        return Reading.of(pick(view.config), unit, CONFIGURATION)

    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(read,), fix=fix)


def _delay(config: ModelConfig) -> float:
    return config.dynamic_batching.max_queue_delay_seconds if config.dynamic_batching else 0.0


def _queue_limit(config: ModelConfig) -> float:
    return float(config.dynamic_batching.queue_policy.max_queue_size) if config.dynamic_batching else 0.0


MAX_BATCH_SIZE = _setting(
    "max_batch_size",
    Unit.COUNT,
    "Largest batch that Triton may form; 1 when it forms none.",
    lambda config: float(max(config.max_batch_size, 1)),
)
DYNAMIC_BATCHING = _setting(
    "dynamic_batching",
    Unit.COUNT,
    "1 when dynamic batching is on, else 0.",
    lambda config: float(config.dynamic_batching is not None),
)
PRESERVES_ORDER = _setting(
    "preserve_ordering",
    Unit.COUNT,
    "1 when responses leave in the order of their requests: a finished one waits for earlier ones, in no counter.",
    lambda config: float(
        config.sequences_in_order or (config.dynamic_batching is not None and config.dynamic_batching.preserve_ordering)
    ),
    fix="if no client needs the order, set preserve_ordering (of dynamic_batching, or of sequence_batching.oldest) to "
    "false, and compare what clients see",
)
BATCH_DELAY = _setting("max_queue_delay", Unit.SECONDS, "How long a request may wait for others to join.", _delay)
QUEUE_LIMIT = _setting("max_queue_size", Unit.COUNT, "Requests a queue may hold; 0 is no limit.", _queue_limit)
WARMUPS = _setting(
    "model_warmup",
    Unit.COUNT,
    "Warm-up samples run before an instance serves.",
    lambda config: float(len(config.warmups)),
)


# TensorRT's backend begins executions of an instance while its last ones are under way, at most as many as it has sets
# of events (tensorrt_backend, `instance_state.h`, EVENT_SET_COUNT). Else an instance does one after another.
_AT_ONCE = {names.TENSORRT_BACKEND: 3}
# Clocks that run fast or slow and times cut to seconds make a span up to a tenth shorter than it was. Of instances that
# never pause, the time of executions was measured as 1.004 of the span at most.
_LONGER_SPAN = 1.1
# Reads fall between a batch's executions and its requests' completions.
_BETWEEN = 1.02


def compute_seconds(delta: Delta | CounterStep) -> float:
    """Return input + infer + output seconds of all requests; each request of a batch books the whole batch's."""
    parts = (Counter.INPUT_SECONDS, Counter.INFER_SECONDS, Counter.OUTPUT_SECONDS)
    return sum(delta.values.get(part, 0.0) for part in parts)


def executed(step: CounterStep) -> tuple[float, float] | None:
    """Return the seconds and the number of a step's executions; None where batches hide how long they took."""
    if step.batches:
        seconds = sum(batch.seconds for batch in step.batches.values())
        return seconds, sum(batch.executions for batch in step.batches.values())
    executions = step.values.get(Counter.EXECUTIONS, 0.0)
    if executions <= 0 or Counter.INFER_SECONDS not in step.values or not one_request_per_execution(step):
        return None
    return compute_seconds(step), executions


def executed_requests(delta: Delta | CounterStep) -> float:
    """Return how many requests were part of an execution: a response cache answers the others, and counts them too."""
    return max(delta.values.get(Counter.SUCCESS, 0.0) - delta.values.get(Counter.CACHE_HITS, 0.0), 0.0)


def one_request_per_execution(delta: Delta | CounterStep) -> bool:
    """Return whether no execution held two requests, so that what requests book is what executions took."""
    executions = delta.values.get(Counter.EXECUTIONS, 0.0)
    return executions > 0 and executed_requests(delta) <= executions * _BETWEEN


def took_more(view: ModelView, config: ModelConfig, instances: float) -> str | None:
    """Return the source by which executions of a version took more time than so many instances have; None else.

    One that ends in the span may have begun before it. An engine and a decoupled model execute beside their instances;
    without a table of batches, how long batches of several requests took is not known.
    """
    if config.decoupled or config.backend in names.ENGINE_BACKENDS:
        return None
    lanes = instances * _AT_ONCE.get(config.backend, 1)
    for source in (STATISTICS, METRICS):
        deltas = [delta for table in view.tables(source) if (delta := table.delta(view.start, view.end)) is not None]
        for delta in deltas:
            total, longest = _occupied(delta)
            if total > lanes * (_LONGER_SPAN * delta.seconds + longest):
                return source
    return None


def _occupied(delta: Delta) -> tuple[float, float]:
    """Return the seconds of all executions and the mean ones of those of the longest size; zeros where not known."""
    if delta.batches:
        means = (batch.seconds / batch.executions for batch in delta.batches.values() if batch.executions > 0)
        return delta.occupied, max(means, default=0.0)
    if not one_request_per_execution(delta):
        return 0.0, 0.0
    total = compute_seconds(delta)
    return total, total / delta.values[Counter.EXECUTIONS]
