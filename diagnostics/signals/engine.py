"""What an in-flight-batching engine says of itself."""

from __future__ import annotations

from diagnostics import names
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, View


def is_engine(view: View) -> bool:
    """Return whether the model batches inside: by its backend, or because it exports the engine's own gauges.

    Its row shows batch size 1 and no queue even when hundreds of requests wait inside.
    """
    config = view.config
    if config is not None and config.backend in names.ENGINE_BACKENDS:
        return True
    return any(
        series.labels.get(names.MODEL) == view.model
        for _, _, snapshot in view.server.snapshots[-1:]
        for position in snapshot.layout.by_name.get(names.ENGINE_REQUESTS, ())
        for series in (snapshot.layout.series[position],)
    )


def shows_its_time(view: View) -> bool:
    """Return whether the engine's own time is in the row's compute_infer (the C++ backend), not hidden in a gap."""
    return view.config is not None and view.config.backend in names.ENGINE_BACKENDS_WITH_TIME


def _waiting(view: View) -> Reading:
    labels = {names.MODEL: view.model or "", names.ENGINE_REQUEST_TYPE: names.ENGINE_WAITING}
    points = view.gauge(names.ENGINE_REQUESTS, labels)
    if not points:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, METRICS)
    if _frozen(view):
        return Reading.unknown(Missing.STALE, Unit.COUNT, METRICS)
    values = [max(value, 0.0) for _, value in points]  # active − scheduled, sampled apart, can come out negative
    return Reading.of(sum(values) / len(values), Unit.COUNT, METRICS, low=min(values), high=max(values))


def _frozen(view: View) -> bool:
    labels = {names.MODEL: view.model or "", names.ENGINE_GENERAL_TYPE: names.ENGINE_ITERATIONS}
    iterations = [value for _, value in view.gauge(names.ENGINE_GENERAL, labels)]
    return len(iterations) >= 2 and iterations[0] == iterations[-1]


ENGINE_WAITING = Signal(
    name="engine_waiting_requests",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Requests that the engine holds and has not scheduled, mean over the reads; the last iteration at each.",
    readers=(_waiting,),
    fix="read the metrics port: the TensorRT-LLM backend exports nv_trt_llm_request_metrics there",
)
