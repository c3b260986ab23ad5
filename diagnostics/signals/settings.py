"""How a model is configured: instances, batching, queue policy, warm-up; from the effective configuration."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics import names
from diagnostics.signals.occupied import took_more
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import ModelView
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


def _setting(name: str, unit: Unit, doc: str, pick: Callable[[ModelConfig], float]) -> Signal:
    def read(view: ModelView) -> Reading:
        if view.config is None:
            return Reading.unknown(Missing.NOT_EXPORTED, unit, CONFIGURATION)
        return Reading.of(pick(view.config), unit, CONFIGURATION)

    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(read,), fix=CONFIG_FIX)


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
BATCH_DELAY = _setting("max_queue_delay", Unit.SECONDS, "How long a request may wait for others to join.", _delay)
QUEUE_LIMIT = _setting("max_queue_size", Unit.COUNT, "Requests a queue may hold; 0 is no limit.", _queue_limit)
WARMUPS = _setting(
    "model_warmup",
    Unit.COUNT,
    "Warm-up samples run before an instance serves.",
    lambda config: float(len(config.warmups)),
)
