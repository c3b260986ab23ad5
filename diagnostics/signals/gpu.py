"""What a GPU does beyond how full it is: whose work it runs, its clocks and caps, its memory, its faults.

All are read per GPU, from NVML, else dcgm-exporter, else (use, power and memory only) Triton's own gauges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from itertools import pairwise

from diagnostics import names
from diagnostics.signals.signal import Missing, Reading, Scope, Signal
from diagnostics.units import Unit
from diagnostics.window.view import ModelView, processes_of
from diagnostics.wire.gpu import NVML, Gpu

_NVML = "nvml"
_GPU_FIX = "record with NVML on the GPU's machine (extra `gpu`), or give dcgm-exporter's page with --dcgm-url"
# Bits of NVML's clock event reasons (nvml.h). Hardware: the card or its power supply protects itself.
IDLE = 0x1
POWER_CAP = 0x4
HARDWARE = 0x8 | 0x20 | 0x40 | 0x80
# A card reads 95 % and more while one process keeps it busy with gaps between its kernels.
_NO_TIME_LEFT = 0.9
# Boost clocks settle within a fifth of the highest; below 70 % an execution takes 40 % longer.
LOW_CLOCK = 0.7
# Xid codes that speak of the card or its driver, not of the program on it: NVIDIA, "XID Errors", catalogue. Others
# (13, 31, 43, 45, 69, 109 and so on) are raised by a faulty kernel or by killing a process.
HARDWARE_XIDS = frozenset(
    {46, 48, 54, 56, 57, 58, 62, 63, 64, 74, 79, 92, 94, 95, 110, 119, 120, 121, 136, 140, 142, 143}
)
_LOST = ("lost", "restart", "reset")


def samples(view: ModelView) -> list[Gpu]:
    """Return the samples of the GPU looked at, in time order; of all GPUs under the model or server without one."""
    return [gpu for one in view.gpu_series().values() for gpu in one]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the present values; None when there are none."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def _reader(
    unit: Unit, compute: Callable[[Sequence[Gpu]], float | None], source: str = ""
) -> Callable[[ModelView], Reading]:
    def read(view: ModelView) -> Reading:
        found = samples(view)
        value = compute(found) if found else None
        if value is None:
            return Reading.unknown(Missing.NOT_EXPORTED, unit, _NVML)
        return Reading.of(value, unit, source or found[-1].source, events=len(found))

    return read


def _signal(name: str, unit: Unit, doc: str, compute: Callable[[Sequence[Gpu]], float | None]) -> Signal:
    return Signal(name=name, unit=unit, scope=Scope.GPU, doc=doc, readers=(_reader(unit, compute),), fix=_GPU_FIX)


def active_share(gpu: Gpu) -> float | None:
    """Return the share of time with any kernel running; None when not measured."""
    return gpu.graphics_active if gpu.graphics_active is not None else gpu.utilization


class Sight(IntEnum):
    """How much of a card's fullness was read."""

    ACTIVITY = 0
    TIME_ONLY = 1
    PART_WITHOUT_ACTIVITY = 2
    UNKNOWN_PART = 3


def _sight(found: Sequence[Gpu]) -> float:
    resources = (share for gpu in found for share in (gpu.sm_active, gpu.tensor_active, gpu.dram_active))
    if any(share is not None for share in resources):
        return Sight.ACTIVITY
    if any(gpu.parts for gpu in found):
        known = any(gpu.instance is not None for gpu in found)
        return Sight.PART_WITHOUT_ACTIVITY if known else Sight.UNKNOWN_PART
    return Sight.TIME_ONLY


def _time_full(found: Sequence[Gpu]) -> float | None:
    shares = [share for gpu in found if (share := active_share(gpu)) is not None]
    return sum(1 for share in shares if share >= _NO_TIME_LEFT) / len(shares) if shares else None


def _held_back(mask: int) -> Callable[[Sequence[Gpu]], float | None]:
    """Return the share of samples in which one of these reasons held the clock down."""

    def compute(found: Sequence[Gpu]) -> float | None:
        known = [gpu.throttle_reasons for gpu in found if gpu.throttle_reasons is not None]
        return sum(1 for reasons in known if reasons & mask) / len(known) if known else None

    return compute


def _clock_share(gpu: Gpu) -> float | None:
    if gpu.sm_clock_hertz is None or not gpu.max_sm_clock_hertz:
        return None
    return min(gpu.sm_clock_hertz / gpu.max_sm_clock_hertz, 1.0)


def _clock_lost(mask: int) -> Callable[[Sequence[Gpu]], float | None]:
    """Return the share of the highest clock that these reasons take away, averaged over all samples."""

    def compute(found: Sequence[Gpu]) -> float | None:
        known = [
            1.0 - share if gpu.throttle_reasons & mask else 0.0
            for gpu in found
            if gpu.throttle_reasons is not None and (share := _clock_share(gpu)) is not None
        ]
        return sum(known) / len(known) if known else None

    return compute


def _cap_lowered(found: Sequence[Gpu]) -> float | None:
    shares = [
        gpu.power_limit_watts / gpu.power_default_limit_watts
        for gpu in found
        if gpu.power_limit_watts is not None and gpu.power_default_limit_watts
    ]
    return mean(shares)


def _free_clock_share(gpu: Gpu) -> float | None:
    """Return the clock's share while the card works and nothing but idleness may hold it down; else None."""
    working = (active_share(gpu) or 0.0) > 0 and gpu.throttle_reasons is not None
    return _clock_share(gpu) if working and not (gpu.throttle_reasons or 0) & ~IDLE else None


def _idle_clock(found: Sequence[Gpu]) -> float | None:
    """Return the mean clock's share while the card worked a little and nothing but idleness held it down."""
    return mean(map(_free_clock_share, found))


def idles_low(gpu: Gpu) -> bool | None:
    """Return whether a card works at a clock that idleness lowered; None where something else may hold it down."""
    share = _free_clock_share(gpu)
    return None if share is None else share <= LOW_CLOCK


def _memory_used(found: Sequence[Gpu]) -> float | None:
    shares = [
        gpu.memory_used_bytes / gpu.memory_total_bytes
        for gpu in found
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes
    ]
    return max(shares, default=None)


def _memory_free(found: Sequence[Gpu]) -> float | None:
    left = [
        gpu.memory_total_bytes - gpu.memory_used_bytes
        for gpu in found
        if gpu.memory_used_bytes is not None and gpu.memory_total_bytes is not None
    ]
    return min(left, default=None)


def _fault_code(found: Sequence[Gpu]) -> float | None:
    """Return the newest Xid of this window that speaks of the card; 0 when there is none.

    NVML's list holds what is new; DCGM's gauge holds the last code ever: it is new when it changes in the window.
    """
    if not any(gpu.source != "metrics" for gpu in found):
        return None
    fresh = [code for gpu in found if gpu.source == _NVML for code in gpu.xids]
    held = [gpu.xids[:1] for gpu in found if gpu.source != _NVML]
    fresh += [now[0] for before, now in pairwise(held) if now and now != before]
    return float(next((code for code in reversed(fresh) if code in HARDWARE_XIDS), 0))


def _memory_errors(found: Sequence[Gpu]) -> float | None:
    """Return how many uncorrected memory errors came in the window; a driver that was restarted counts again."""
    counts = [gpu.ecc_uncorrected for gpu in found if gpu.ecc_uncorrected is not None]
    return sum(max(now - before, 0.0) for before, now in pairwise(counts)) if counts else None


def _remap_failed(found: Sequence[Gpu]) -> float | None:
    known = [gpu.remap_failed for gpu in found if gpu.remap_failed is not None]
    return float(known[-1]) if known else None


def _remap_pending(found: Sequence[Gpu]) -> float | None:
    known = [gpu.remap_pending for gpu in found if gpu.remap_pending is not None]
    return float(known[-1]) if known else None


def _lost(found: Sequence[Gpu]) -> float:
    """Return the share of samples in which the driver said that the card is lost or needs a reset."""
    stated = [any(word in why.lower() for word in _LOST for why in gpu.withheld.values()) for gpu in found]
    return sum(stated) / len(stated)


# Words of CUDA, PyTorch, ONNX Runtime and of Triton's own limit in the reason of a failed load.
GPU_SIGHT = _signal(
    "gpu_sight",
    Unit.COUNT,
    "0 where SM, tensor or DRAM activity was read; 1 only time in use; of a divided card 2 no activity of the server's "
    "part, 3 not even which part that is.",
    _sight,
)
GPU_TIME_FULL = _signal(
    "gpu_time_full",
    Unit.RATIO,
    "Share of the samples in which some kernel ran at least nine tenths of the time.",
    _time_full,
)
GPU_TIME_USED = _signal(
    "gpu_time_used",
    Unit.RATIO,
    "Share of the time in which some kernel ran, mean over the samples.",
    lambda found: mean(map(active_share, found)),
)
GPU_SM_ACTIVE = _signal(
    "gpu_sm_active",
    Unit.RATIO,
    "Share of the card's SMs that work, mean over the samples.",
    lambda found: mean(gpu.sm_active for gpu in found),
)
HELD_BACK_BY_HARDWARE = _signal(
    "clock_held_back_by_hardware",
    Unit.RATIO,
    "Share of the samples in which heat or the power supply held the clock down.",
    _held_back(HARDWARE),
)
HELD_BACK_BY_POWER_CAP = _signal(
    "clock_held_back_by_power_cap",
    Unit.RATIO,
    "Share of the samples in which the power cap held the clock down.",
    _held_back(POWER_CAP),
)
CLOCK_LOST_TO_HARDWARE = _signal(
    "clock_lost_to_hardware",
    Unit.RATIO,
    "Share of the highest SM clock that heat or the power supply took, mean over the window.",
    _clock_lost(HARDWARE),
)
CLOCK_LOST_TO_POWER_CAP = _signal(
    "clock_lost_to_power_cap",
    Unit.RATIO,
    "Share of the highest SM clock that the power cap took, mean over the window.",
    _clock_lost(POWER_CAP),
)
POWER_CAP_SHARE = _signal(
    "power_cap_share",
    Unit.RATIO,
    "The enforced power limit ÷ the one that the card came with.",
    _cap_lowered,
)
IDLE_CLOCK_SHARE = _signal(
    "idle_clock_share",
    Unit.RATIO,
    "SM clock ÷ its highest while the card worked and nothing but idleness held it down.",
    _idle_clock,
)
GPU_MEMORY_USED = _signal(
    "gpu_memory_used_share",
    Unit.RATIO,
    "Share of the card's memory in use by anybody, the highest of the samples.",
    _memory_used,
)
GPU_MEMORY_FREE = _signal(
    "gpu_memory_free",
    Unit.BYTES,
    "Memory of the card that nobody uses, the least of the samples.",
    _memory_free,
)
FAULT_CODE = _signal(
    "gpu_fault_code",
    Unit.COUNT,
    "The newest Xid in the window that speaks of the card or its driver; 0 is none.",
    _fault_code,
)
MEMORY_ERRORS = _signal(
    "gpu_memory_errors",
    Unit.COUNT,
    "Uncorrected memory errors (ECC) in the window.",
    _memory_errors,
)
REMAP_FAILED = _signal(
    "gpu_remap_failed",
    Unit.COUNT,
    "1 when a bad row of memory could not be replaced: the card is to be exchanged.",
    _remap_failed,
)
REMAP_PENDING = _signal(
    "gpu_remap_pending",
    Unit.COUNT,
    "1 when bad rows of memory wait for a reset of the card to be replaced.",
    _remap_pending,
)
GPU_LOST = _signal(
    "gpu_lost",
    Unit.RATIO,
    "Share of the samples in which the driver called the card lost or in need of a reset.",
    _lost,
)


_HOST_AND_NVML = "host and nvml"


def _stubs(view: ModelView) -> set[int]:
    """Return the Python stubs that run the model, where the recorder noted whose each is."""
    return {
        process.pid
        for host in view.hosts()
        for process in host.processes
        if process.command.startswith(names.PYTHON_STUB) and process.model == view.model
    }


def _held(gpu: Gpu, pids: set[int] | None) -> list[int]:
    """Return the bytes of each of the processes, of all where None, that the card says of."""
    return [held for pid, held in gpu.process_memory.items() if held is not None and (pids is None or pid in pids)]


def _of_stubs(view: ModelView) -> Reading:
    pids = _stubs(view)
    held = [size for gpu in samples(view) if gpu.source == NVML for size in _held(gpu, pids)]
    if not held:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, _HOST_AND_NVML)
    return Reading.of(float(max(held)), Unit.BYTES, _HOST_AND_NVML, events=len(held))


def _of_largest_process(view: ModelView) -> Reading:
    """Return the card's largest process, of the server's where they are known: an instance lives in one process."""
    own = processes_of(view.server.hosts) or None
    held = [size for gpu in samples(view) if gpu.source == NVML for size in _held(gpu, own)]
    if not held or not view.on_gpu:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.BYTES, NVML)
    most = float(max(held))
    return Reading.of(most, Unit.BYTES, NVML, low=0.0, high=most, estimated=True, events=len(held))


INSTANCE_GPU_MEMORY = Signal(
    name="instance_gpu_memory",
    unit=Unit.BYTES,
    scope=Scope.MODEL,
    doc="Memory that one instance of the model holds on a card: of its largest Python stub; else, as a bound, of the "
    "largest process on the card.",
    readers=(_of_stubs, _of_largest_process),
    fix="run on the GPU's machine as a user who sees the server's processes, with the extra `gpu`",
)
