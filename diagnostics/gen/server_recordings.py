"""Recording rules on servers and their GPUs, and the mark by which a server that is gone is still known as a Triton."""

from __future__ import annotations

from diagnostics import names
from diagnostics.gen.recording import RANGE, SERVER, Recording, by, ratio
from diagnostics.units import Unit

GPU = "instance_gpu"
GPU_POWER = f"{GPU}:triton_gpu_power:ratio5m"
GPU_MEMORY = f"{GPU}:triton_gpu_memory:ratio5m"
GPU_UTILIZATION = f"{GPU}:triton_gpu_utilization:avg5m"
GPU_WATTS = f"{GPU}:triton_gpu_energy_watts:rate5m"
CPU = "instance:triton_cpu_utilization:avg5m"
CPU_MEMORY = "instance:triton_cpu_memory:ratio5m"
PINNED_MEMORY = "instance:triton_pinned_memory:ratio5m"
IS_TRITON = "instance:triton_server:info"

_EXPORTED = f"{names.REQUEST_SUCCESS} or {names.PINNED_MEMORY_TOTAL}"
_NOW = f"group {by(SERVER)} ({_EXPORTED})"
_BEFORE = f"last_over_time({IS_TRITON}[10m]) and on ({', '.join(SERVER)}) up"


def _mean(metric: str) -> str:
    return f"avg_over_time({metric}[{RANGE}])"


def _of(name: str, expr: str, unit: Unit, meaning: str) -> Recording:
    return Recording(name=name, expr=expr, unit=unit, meaning=meaning)


SERVER_RECORDINGS = (
    Recording(
        name=IS_TRITON,
        expr=f"{_NOW} or {_BEFORE}",
        unit=Unit.COUNT,
        meaning="1 for each target that exports Triton's metrics, or did so last and is still a target.",
        without_history=f"group {by(SERVER)} (last_over_time({names.REQUEST_SUCCESS}[1h]))",
    ),
    _of(
        GPU_POWER,
        ratio(_mean(names.GPU_POWER), _mean(names.GPU_POWER_LIMIT)),
        Unit.RATIO,
        "Power drawn of the power limit.",
    ),
    _of(
        GPU_MEMORY,
        ratio(_mean(names.GPU_MEMORY_USED), _mean(names.GPU_MEMORY_TOTAL)),
        Unit.RATIO,
        "Memory in use by all processes.",
    ),
    _of(
        GPU_UTILIZATION,
        _mean(names.GPU_UTILIZATION),
        Unit.RATIO,
        "Share of time with any kernel running, not of the processors in use. 0 also when the sensor fails.",
    ),
    _of(GPU_WATTS, f"rate({names.GPU_ENERGY}[{RANGE}])", Unit.WATTS, "Mean power by the energy counter."),
    _of(CPU, _mean(names.CPU_UTILIZATION), Unit.RATIO, "Processors in use, of the host and not of the container."),
    _of(
        CPU_MEMORY,
        ratio(_mean(names.CPU_MEMORY_USED), _mean(names.CPU_MEMORY_TOTAL)),
        Unit.RATIO,
        "Memory of the host in use.",
    ),
    _of(
        PINNED_MEMORY,
        ratio(_mean(names.PINNED_MEMORY_USED), _mean(names.PINNED_MEMORY_TOTAL)),
        Unit.RATIO,
        "Pinned memory pool in use; beyond it Triton copies through pageable memory.",
    ),
)
