"""A machine as node_exporter's series tell of it: memory, and what waits for processors and for disks (PSI).

Its processors' time is left out: that is a series for each processor and mode, and Triton's page has the sum.
"""

from __future__ import annotations

from collections.abc import Mapping

from diagnostics import names
from diagnostics.wire.host import HostSample

FAMILIES = (
    names.NODE_CPU_PRESSURE,
    names.NODE_IO_PRESSURE,
    names.NODE_MEMORY_TOTAL,
    names.NODE_MEMORY_AVAILABLE,
)


def machine_of(at: float, values: Mapping[str, float]) -> HostSample:
    """Return the sample of Unix second `at` that these values by family tell of; what they lack is None."""
    return HostSample(
        at=at,
        pressure_seconds=values.get(names.NODE_CPU_PRESSURE),
        io_pressure_seconds=values.get(names.NODE_IO_PRESSURE),
        memory_total_bytes=values.get(names.NODE_MEMORY_TOTAL),
        memory_available_bytes=values.get(names.NODE_MEMORY_AVAILABLE),
    )
