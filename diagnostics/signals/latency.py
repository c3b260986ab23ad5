"""End-to-end latency quantiles, where the server keeps summaries."""

from __future__ import annotations

from diagnostics import names
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView

_MICROSECOND = 1e-6


def latency_quantile(quantile: float) -> Signal:
    """Return the signal of one quantile of a model's or ensemble's request time.

    Triton's summary covers the last 60 s at each read, so the newest read is the value; it is NaN when idle and absent
    unless `summary_latencies=true`. Only the quantiles that the server was configured with exist.
    """

    def read(view: ModelView) -> Reading:
        labels = {names.MODEL: view.model or "", names.QUANTILE: f"{quantile:g}"}
        points = view.gauge(names.REQUEST_SUMMARY, labels)
        if not points:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, METRICS)
        return Reading.of(points[-1][1] * _MICROSECOND, Unit.SECONDS, METRICS, span=60.0)

    return Signal(
        name=f"request_seconds_p{quantile * 100:g}",
        unit=Unit.SECONDS,
        scope=Scope.MODEL,
        doc=f"The {quantile * 100:g}th percentile of request time over the last 60 s.",
        readers=(read,),
        fix="start Triton with --metrics-config summary_latencies=true",
    )


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
