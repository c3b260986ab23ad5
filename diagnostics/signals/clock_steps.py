"""By how much executions take longer while heat or the power supply holds their cards' clock down."""

from __future__ import annotations

from diagnostics.signals.contrast import contrasted, pieces_per_request, up_while
from diagnostics.signals.gpu import HARDWARE
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, STATISTICS, Counter, View
from diagnostics.wire.gpu import NVML

# Samples come every second or two: those around a step tell of its ends.
_SLACK = 1.0


def _held_back(view: View) -> list[tuple[float, bool]]:
    """Return when (Unix seconds) the clock of one of the model's cards was held down, and when it was not."""
    cards = view.gpu_series()
    found: list[tuple[float, bool]] = []
    for sample in view.window.gpus:
        reasons = [gpu.throttle_reasons for gpu in sample.gpus if gpu.uuid in cards]
        known = [one for one in reasons if one is not None]
        if sample.at is not None and known:
            found.append((sample.at, any(one & HARDWARE for one in known)))
    return sorted(found)


def _excess(view: View) -> Reading:
    samples = _held_back(view) if view.on_gpu else []
    if not samples:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, NVML)
    for source in (STATISTICS, METRICS):
        if pieces := pieces_per_request(view.steps(source), Counter.INFER_SECONDS):
            found = contrasted(pieces, up_while(samples, _SLACK))
            told = f"{NVML} and {source}"
            return Reading.unknown(found, Unit.SECONDS, told) if isinstance(found, Missing) else found.reading(told)
    return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, STATISTICS)


HELD_BACK_EXCESS_COMPUTE = Signal(
    name="clock_held_back_excess_compute",
    unit=Unit.SECONDS,
    scope=Scope.MODEL,
    doc="Seconds per request that executions are longer by while heat or the power supply holds the clock down, spread "
    "over all requests.",
    readers=(_excess,),
)
