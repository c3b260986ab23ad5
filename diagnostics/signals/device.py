"""How much of the device under a model is left: GPU by its fullest resource, host by its processors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from diagnostics import names
from diagnostics.signals.host import CPU_WAIT_PER_LANE, HARDLY_WAITS, SERVER_CPU_SHARE, limit_used
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import METRICS, ModelView
from diagnostics.wire.gpu import HIGHEST_RATIO, Gpu
from diagnostics.wire.host import HostSample

_NVML = "nvml"
_HOST = "host"
# Backends whose instances are processes of their own: without MPS their kernels never overlap on one GPU.
_TIME_SLICED = frozenset({"python", "vllm"})
# NVIDIA DCGM, "Profiling metrics": SM activity of 0.8 or more is necessary for effective use of a GPU. With that, and
# no time left in which no kernel runs, there is nothing to be had from more kernels.
_WELL_FILLED = 0.8
NO_TIME_LEFT = 0.97
# The share of a resource under which a single sample counts as at the limit; the same tenth that `device full` uses.
_AT_LIMIT = 0.1


@dataclass(frozen=True, slots=True)
class DeviceLoad:
    """How full a GPU is on average, 0 to 1 each; None where not measured."""

    active: float | None
    compute: float | None
    memory: float | None
    power: float | None
    samples: int
    source: str

    def headroom(self, time_sliced: bool) -> tuple[float, float, float] | None:
        """Return (value, low, high) of what is left; None when nothing was measured.

        `high` counts only resources that certainly are the limit when full: SM or tensor, DRAM, power. `low` also
        counts the time in which any kernel runs, which is the limit where processes take turns and a bound elsewhere.
        """
        hard = [share for share in (self.compute, self.memory, self.power) if share is not None]
        filled = max([share for share in (self.compute, self.memory) if share is not None], default=0.0)
        if self.active is not None and self.active >= NO_TIME_LEFT and filled >= _WELL_FILLED:
            hard.append(self.active)
        if not hard and self.active is None:
            return None
        high = 1.0 - max(hard, default=0.0)
        low = min(high, 1.0 - self.active) if self.active is not None else high
        measured = self.compute is not None
        value = low if time_sliced or not measured else high
        return max(value, 0.0), max(low, 0.0), max(high, 0.0)


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def _ratio(top: float | None, bottom: float | None) -> float | None:
    return top / bottom if top is not None and bottom else None


def _highest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _load(samples: Sequence[Gpu]) -> DeviceLoad:
    return DeviceLoad(
        active=_mean(gpu.graphics_active if gpu.graphics_active is not None else gpu.utilization for gpu in samples),
        compute=_highest(_mean(g.sm_active for g in samples), _mean(g.tensor_active for g in samples)),
        memory=_mean(gpu.dram_active for gpu in samples),
        power=_mean(_ratio(gpu.power_watts, gpu.power_limit_watts) for gpu in samples),
        samples=len(samples),
        source=samples[-1].source,
    )


def loads(view: ModelView) -> dict[str, DeviceLoad]:
    """Return the mean load of each GPU under the model by uuid: NVML first, else DCGM, else Triton's own gauges."""
    return {uuid: _load(samples) for uuid, samples in view.gpu_series().items()}


def _gpu_headroom(view: ModelView) -> Reading:
    measured = loads(view)
    sliced = bool(view.config and view.config.backend in _TIME_SLICED)
    rooms = [(room, load) for load in measured.values() if (room := load.headroom(sliced)) is not None]
    if not rooms:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _NVML)
    # Any free instance may take a request, so the emptiest card decides what more work the deployment can do.
    (value, low, high), load = max(rooms, key=lambda found: found[0][2])
    return Reading.of(
        value,
        Unit.RATIO,
        load.source,
        low=low,
        high=high,
        estimated=load.compute is None,
        events=load.samples,
    )


def _cpu_headroom(view: ModelView) -> Reading:
    busy = HOST_CPU_BUSY.read(view)
    if busy.value is None:
        return busy
    left = max(1.0 - busy.value, 0.0)
    wait, own = CPU_WAIT_PER_LANE.read(view).value, SERVER_CPU_SHARE.read(view).value
    # Others fill the processors, and the model's processes get them as soon as they want to run: what they do not use
    # themselves is theirs to grow into.
    high = 1.0 - own if wait is not None and own is not None and wait < HARDLY_WAITS else left
    return Reading.of(left, Unit.RATIO, busy.source, high=max(left, high), events=busy.events, span=busy.span)


def _headroom(view: ModelView) -> Reading:
    if view.on_gpu is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, "configuration")
    return _gpu_headroom(view) if view.on_gpu else _cpu_headroom(view)


def _host_busy(view: ModelView) -> Reading:
    samples = view.hosts()
    if len(samples) < 2:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    share = _busy_between(samples[0], samples[-1])
    if share is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _HOST)
    # A container's quota is full long before its host is.
    share = max(share, limit_used(view) or 0.0)
    span = _increase(samples[0].at, samples[-1].at)
    return Reading.of(share, Unit.RATIO, _HOST, events=len(samples), span=span)


def _busy_between(first: HostSample, last: HostSample) -> float | None:
    total = _increase(first.cpu_total_seconds, last.cpu_total_seconds)
    busy = _increase(first.cpu_busy_seconds, last.cpu_busy_seconds)
    return min(max(busy / total, 0.0), 1.0) if total and busy is not None else None


def _increase(first: float | None, last: float | None) -> float | None:
    return last - first if first is not None and last is not None else None


def _exported_busy(view: ModelView) -> Reading:
    values = [value for _, value in view.gauge(names.CPU_UTILIZATION, {}) if 0 <= value <= HIGHEST_RATIO]
    if not values:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, METRICS)
    return Reading.of(sum(values) / len(values), Unit.RATIO, METRICS, events=len(values))


def _gpu_at_limit(view: ModelView) -> Reading:
    """Share of samples in which the fullest card had under a tenth of a certain resource left."""
    shares = [
        (sum(1 for gpu in samples if _at_limit(gpu)) / len(samples), len(samples))
        for samples in view.gpu_series().values()
    ]
    if not shares:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, _NVML)
    share, samples = max(shares)
    return Reading.of(share, Unit.RATIO, _NVML, events=samples)


def _at_limit(gpu: Gpu) -> bool:
    room = _load([gpu]).headroom(time_sliced=False)
    return room is not None and room[2] <= _AT_LIMIT


def _signal(name: str, doc: str, *readers: Callable[[ModelView], Reading], fix: str) -> Signal:
    return Signal(name=name, unit=Unit.RATIO, scope=Scope.MODEL, doc=doc, readers=readers, fix=fix)


def _on_gpu(view: ModelView) -> Reading:
    if view.on_gpu is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.COUNT, "configuration")
    return Reading.of(float(view.on_gpu), Unit.COUNT, "configuration")


ON_GPU = Signal(
    name="on_gpu",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="1 when the model's instances are on a GPU, else 0.",
    readers=(_on_gpu,),
)
GPU_AT_LIMIT = Signal(
    name="gpu_at_limit",
    unit=Unit.RATIO,
    scope=Scope.SERVER,
    doc="Share of the samples in which the fullest GPU has under a tenth of SM, tensor, DRAM or power left.",
    readers=(_gpu_at_limit,),
)
HOST_CPU_BUSY = _signal(
    "host_cpu_busy",
    "Share of processor time in use, mean: of the host, or of the server's own limit where that is fuller. Triton's "
    "own gauge describes the host, not its container.",
    _host_busy,
    _exported_busy,
    fix="start Triton with --allow-cpu-metrics=true, or record on the server's machine",
)
DEVICE_HEADROOM = _signal(
    "device_headroom",
    "What is left of the device under the model: 1 − its fullest resource (GPU: time where processes take turns, SM, "
    "tensor, DRAM, power; CPU: processor time).",
    _headroom,
    fix="start Triton with --allow-gpu-metrics=true (for models on processors --allow-cpu-metrics=true), or record on "
    "the server's machine",
)
