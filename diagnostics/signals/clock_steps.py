"""By how much executions take longer while something holds their cards' clock down: heat, the power cap, idleness."""

from __future__ import annotations

from collections.abc import Callable

from diagnostics.signals.contrast import up_while
from diagnostics.signals.effects import excess_or_engines
from diagnostics.signals.gpu import HARDWARE, POWER_CAP, idles_low
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import Counter, ModelView
from diagnostics.wire.gpu import NVML, Gpu

# Samples come every second or two: those around a step show its ends.
_SLACK = 1.0
# Whether something holds a card's clock down in a sample; None where the sample does not show it.
_Held = Callable[[Gpu], bool | None]


def _for_reason(mask: int) -> _Held:
    return lambda gpu: None if gpu.throttle_reasons is None else bool(gpu.throttle_reasons & mask)


def _samples(view: ModelView, held: _Held) -> list[tuple[float, bool]]:
    """Return when (Unix seconds) the clock of one of the model's cards was held down, and when it was not."""
    found: dict[float, bool] = {}
    for uuid in view.gpu_series():
        for at, gpu in view.window.cards.get(uuid, ()):
            if (up := held(gpu)) is not None:
                found[at] = found.get(at, False) or up
    return sorted(found.items())


def _excess(held: _Held) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        samples = _samples(view, held) if view.on_gpu else []
        if not samples:
            return Reading.unknown(Missing.NOT_EXPORTED, Unit.SECONDS, NVML)
        found = excess_or_engines(view, Counter.INFER_SECONDS, up_while(samples, _SLACK))
        return found.from_source(f"{NVML} and {found.source}")

    return read


def _signal(name: str, what: str, held: _Held) -> Signal:
    return Signal(
        name=name,
        unit=Unit.SECONDS,
        scope=Scope.MODEL,
        doc=f"Seconds per request that executions, or iterations of the model's engine, are longer by while {what}, "
        "spread over all requests.",
        readers=(_excess(held),),
    )


HELD_BACK_EXCESS_COMPUTE = _signal(
    "clock_held_back_excess_compute", "heat or the power supply holds the clock down", _for_reason(HARDWARE)
)
POWER_CAP_EXCESS_COMPUTE = _signal(
    "power_cap_excess_compute", "the power cap holds the clock down", _for_reason(POWER_CAP)
)
IDLE_CLOCK_EXCESS_COMPUTE = _signal(
    "idle_clock_excess_compute", "the clock is low and nothing but idleness holds it down", idles_low
)
