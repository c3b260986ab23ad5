"""A machine in node_exporter's series: its processors, memory, what waits for processors and disks (PSI).

Of its processors' time only what they idle is read: that is two series for each, not ten. The rest they worked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from diagnostics import names
from diagnostics.wire.host import IDLE_STATES, HostSample

FAMILIES = (
    names.NODE_CPU_PRESSURE,
    names.NODE_IO_PRESSURE,
    names.NODE_MEMORY_TOTAL,
    names.NODE_MEMORY_AVAILABLE,
)
IDLE_MODES = tuple(sorted(IDLE_STATES))
"""Values of the label `mode` of `names.NODE_CPU` that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcessors:
    """The processors of a machine at one scrape.

    Attributes:
        cores: how many there are.
        up_seconds: for how long they have been counted.
        idle_seconds: for how long they idled since then, over all of them.

    """

    cores: int
    up_seconds: float
    idle_seconds: float


def machine_of(at: float, values: Mapping[str, float], processors: NodeProcessors | None = None) -> HostSample:
    """Return the sample of Unix second `at` in these values by family; what they lack is None."""
    total = None if processors is None else processors.cores * processors.up_seconds
    return HostSample(
        at=at,
        cores=None if processors is None else processors.cores,
        cpu_total_seconds=total,
        cpu_busy_seconds=None if processors is None or total is None else total - processors.idle_seconds,
        pressure_seconds=values.get(names.NODE_CPU_PRESSURE),
        io_pressure_seconds=values.get(names.NODE_IO_PRESSURE),
        memory_total_bytes=values.get(names.NODE_MEMORY_TOTAL),
        memory_available_bytes=values.get(names.NODE_MEMORY_AVAILABLE),
    )
