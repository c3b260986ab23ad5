"""Each limit of the GPU and host checks decides: a tenth to either side of it the answer differs."""

from __future__ import annotations

import pytest

from diagnostics.checks import (
    gpu_contended_by_colocated_model,
    gpu_contended_by_other_process,
    gpu_fault,
    gpu_memory_pressure,
    gpu_throttled,
    host_cpu_starved,
    idle_clocks,
    memory_growth,
    observer_overhead,
    over_instanced,
)
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import CheckModule, Fires
from diagnostics.signals import gpu, host, neighbours
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Signal
from diagnostics.signals.traces import TRACED_SHARE
from diagnostics.signals.triton import REQUEST_RATE
from tests.checks.stated import decided

# check, number of the firing case it starts from, the signal that moves, the limit's value, fires above it
TABLE: tuple[tuple[CheckModule, int, Signal, float, bool], ...] = (
    (gpu_contended_by_other_process, 0, gpu.GPU_TIME_FULL, 0.1, True),
    (gpu_contended_by_other_process, 0, neighbours.FOREIGN_SHARE, 0.1, True),
    (gpu_contended_by_other_process, 1, neighbours.FOREIGN_STAY, 0.9, True),
    (gpu_contended_by_colocated_model, 0, neighbours.NEIGHBOUR_LANES, 0.1, True),
    (gpu_contended_by_colocated_model, 0, gpu.GPU_TIME_FULL, 0.1, True),
    (gpu_throttled, 0, gpu.HELD_BACK_BY_HARDWARE, 0.1, True),
    (gpu_throttled, 1, gpu.HELD_BACK_BY_POWER_CAP, 0.1, True),
    (idle_clocks, 0, gpu.GPU_TIME_USED, 0.3, False),
    (idle_clocks, 0, gpu.IDLE_CLOCK_SHARE, 0.7, False),
    (gpu_memory_pressure, 1, gpu.GPU_MEMORY_USED, 0.97, True),
    (gpu_memory_pressure, 0, host.OUT_OF_MEMORY, 1.0, True),
    (gpu_fault, 0, gpu.FAULT_CODE, 1.0, True),
    (gpu_fault, 1, gpu.MEMORY_ERRORS, 1.0, True),
    (gpu_fault, 2, gpu.GPU_LOST, 0.1, True),
    (host_cpu_starved, 0, HOST_CPU_BUSY, 0.9, True),
    (host_cpu_starved, 1, host.CPU_THROTTLED, 0.25, True),
    (host_cpu_starved, 0, host.CPU_PER_LANE, 0.1, True),
    (host_cpu_starved, 0, host.CPU_PRESSURE, 0.2, True),
    (observer_overhead, 0, REQUEST_RATE, 500.0, True),
    (observer_overhead, 0, EXECUTION_SECONDS, 0.005, False),
    (observer_overhead, 1, TRACED_SHARE, 0.5, True),
    (over_instanced, 0, INSTANCES, 4.0, True),
    (memory_growth, 0, host.SERVER_MEMORY, 200_000 * 3600 / 0.01, False),
    (memory_growth, 0, host.MEMORY_LEFT, 200_000 * 7 * 86_400, False),
)


def fires(check: CheckModule, case: int, signal: Signal, value: float) -> bool:
    name = check.__name__.rpartition(".")[2].replace("_", "-")  # type: ignore[attr-defined]
    readings = {**check.CASES[case].readings, signal: value}
    if check is over_instanced and value < 12:
        # The other way round than in production: as many instances as there are make the same load.
        readings[EXECUTION_SECONDS] = 0.133 * value / 12
    if check is idle_clocks and signal is gpu.IDLE_CLOCK_SHARE:
        readings = {k: v * (20 if k.name == "compute_seconds" else 1) for k, v in readings.items()}
        readings = {k: v * (20 if k.name == "request_seconds" else 1) for k, v in readings.items()}
    return isinstance(decided(catalogue()[name], readings)[0], Fires)


@pytest.mark.parametrize(
    ("check", "case", "signal", "limit", "above"),
    TABLE,
    ids=[f"{row[0].__name__.rpartition('.')[2]} {row[2].name}" for row in TABLE],  # type: ignore[attr-defined]
)
def test_a_limit_decides(check: CheckModule, case: int, signal: Signal, limit: float, above: bool) -> None:
    step = 0.02 if limit == 0.97 else 0.1
    # Whole numbers of things step by one.
    low, high = (limit - 1, limit + 1) if limit in (1.0, 4.0) else (limit * (1 - step), limit * (1 + step))

    assert fires(check, case, signal, high) is above
    assert fires(check, case, signal, low) is not above
