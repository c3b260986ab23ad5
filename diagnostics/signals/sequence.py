"""Schedulers that order requests: priorities and sequences, and how unequally requests wait under them."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics import names
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView
from diagnostics.wire.model_config import ModelConfig

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
