"""What an in-flight-batching engine says of its requests: how many run, how many wait, how many it can hold."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics import names
from diagnostics.signals.engine_samples import EngineReads, mean_over, over_engine
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView

_GAUGES_FIX = f"read the metrics port: the TensorRT-LLM backend exports {names.ENGINE_REQUESTS} there"


def engine_signal(
    name: str, unit: Unit, doc: str, compute: Callable[[EngineReads, ModelView], Reading], *, fix: str = ""
) -> Signal:
    """Return a signal of a model whose only reader computes from the engine's reads."""
    return Signal(name=name, unit=unit, scope=Scope.MODEL, doc=doc, readers=(over_engine(compute, unit),), fix=fix)


def _waits(engine: EngineReads) -> list[float]:
    """Return what waited at each read; nothing waits inside an engine that does not iterate: it only looks so."""
    live = set(map(id, engine.live))
    return [s.waiting if id(s) in live else 0.0 for s in engine.samples if s.waiting is not None]


def _waiting(engine: EngineReads, _: ModelView) -> Reading:
    values = _waits(engine)
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    mean = engine.working * sum(values) / len(values)
    low = min(values) if engine.working == 1.0 else 0.0
    return Reading.of(mean, Unit.COUNT, METRICS, low=low, high=max(values), events=len(values))


def _working(engine: EngineReads) -> Reading:
    return Reading.of(engine.working, Unit.RATIO, METRICS)


def _waiting_share(engine: EngineReads, _: ModelView) -> Reading:
    values = _waits(engine)
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return mean_over([1.0 if value > 0 else 0.0 for value in values], Unit.RATIO) * _working(engine)


def _wait_seconds(engine: EngineReads, view: ModelView) -> Reading:
    waiting = mean_over(_waits(engine), Unit.COUNT) * _working(engine)
    return (waiting / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _work_seconds(engine: EngineReads, view: ModelView) -> Reading:
    live = set(map(id, engine.live))
    values = [s.scheduled if id(s) in live else 0.0 for s in engine.samples if s.scheduled is not None]
    scheduled = mean_over(values, Unit.COUNT) * _working(engine)
    return (scheduled / REQUEST_RATE.read(view)).with_unit(Unit.SECONDS)


def _slots(engine: EngineReads, view: ModelView) -> Reading:
    said = [sample.slots for sample in engine.live if sample.slots]
    configured = view.config.max_batch_size if view.config else 0
    built = view.config is not None and view.config.backend in names.ENGINE_BACKENDS_WITH_TIME and configured > 0
    if not said:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    if built and configured < said[-1]:
        return Reading.of(float(configured), Unit.COUNT, "configuration")
    return Reading.of(said[-1], Unit.COUNT, METRICS)


def _slot_fill(engine: EngineReads, view: ModelView) -> Reading:
    slots = _slots(engine, view).value
    if not slots:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    scheduled = [sample.scheduled for sample in engine.waiting if sample.scheduled is not None]
    return mean_over([value / slots for value in scheduled], Unit.RATIO)


def _peak_fill(engine: EngineReads, view: ModelView) -> Reading:
    slots = _slots(engine, view).value
    scheduled = [sample.scheduled for sample in engine.live if sample.scheduled is not None]
    if not slots or not scheduled:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return Reading.of(max(scheduled) / slots, Unit.RATIO, METRICS, events=len(scheduled))


def _peak_scheduled(engine: EngineReads, _: ModelView) -> Reading:
    scheduled = [sample.scheduled for sample in engine.live if sample.scheduled is not None]
    if not scheduled:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(max(scheduled), Unit.COUNT, METRICS, events=len(scheduled))


def _peak_held(engine: EngineReads, _: ModelView) -> Reading:
    held = [s.scheduled + s.waiting for s in engine.live if s.scheduled is not None and s.waiting is not None]
    if not held:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(max(held), Unit.COUNT, METRICS, events=len(held))


def _micro_batches(engine: EngineReads, _: ModelView) -> Reading:
    seen = {sample.micro_batch for sample in engine.live if sample.micro_batch is not None}
    if not seen:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    return Reading.of(len(seen), Unit.COUNT, METRICS, events=len(engine.live))


def _static(engine: EngineReads, view: ModelView) -> Reading:
    stated = view.config.parameters.get("gpt_model_type", "") if view.config else ""
    if stated and "$" not in stated:
        return Reading.of(1.0 if stated.upper() == "V1" else 0.0, Unit.COUNT, "configuration")
    return Reading.of(1.0 if engine.live[-1].static_batching else 0.0, Unit.COUNT, METRICS)


ENGINE_WAITING = engine_signal(
    "engine_waiting_requests",
    Unit.COUNT,
    "Requests that the engine holds and has not scheduled, mean over the reads; the last iteration at each.",
    _waiting,
    fix=_GAUGES_FIX,
)
ENGINE_WAITING_SHARE = engine_signal(
    "engine_waiting_share", Unit.RATIO, "Share of the reads at which a request waits inside the engine.", _waiting_share
)
ENGINE_WAIT_SECONDS = engine_signal(
    "engine_wait_seconds",
    Unit.SECONDS,
    "Mean time a request waits inside the engine: waiting requests ÷ request rate (Little's law).",
    _wait_seconds,
)
ENGINE_WORK_SECONDS = engine_signal(
    "engine_work_seconds",
    Unit.SECONDS,
    "Mean time a request is scheduled by the engine: scheduled requests ÷ request rate (Little's law).",
    _work_seconds,
)
ENGINE_SLOTS = engine_signal(
    "engine_slots",
    Unit.COUNT,
    "Requests that the engine can run at once: its own limit, or the smaller one of its configuration.",
    _slots,
)
ENGINE_SLOT_FILL = engine_signal(
    "engine_slot_fill", Unit.RATIO, "Scheduled requests ÷ slots, mean over reads at which requests wait.", _slot_fill
)
ENGINE_PEAK_FILL = engine_signal(
    "engine_peak_slot_fill", Unit.RATIO, "Most scheduled requests of any read ÷ slots.", _peak_fill
)
ENGINE_PEAK_SCHEDULED = engine_signal(
    "engine_peak_scheduled", Unit.COUNT, "Most requests that were scheduled at any read.", _peak_scheduled
)
ENGINE_PEAK_HELD = engine_signal(
    "engine_peak_held", Unit.COUNT, "Most requests that the engine held at any read, scheduled or waiting.", _peak_held
)
ENGINE_MICRO_BATCHES = engine_signal(
    "engine_micro_batches",
    Unit.COUNT,
    "Micro batches seen: with more than one, the requests of the others look as if they waited.",
    _micro_batches,
)
ENGINE_STATIC_BATCHING = engine_signal(
    "engine_static_batching", Unit.COUNT, "1 when batches run to their end before others start (V1), else 0.", _static
)
