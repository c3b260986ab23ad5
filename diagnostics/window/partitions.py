"""Divided GPUs (MIG): the one instance on a card that a server works on.

An instance has memory and multiprocessors of its own. What others' instances do says nothing of how full the server's
is, and the card as a whole has neither utilization nor activity.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from diagnostics.wire.gpu import Gpu
from diagnostics.wire.host import HostSample


def occupied(samples: Sequence[Gpu], pids: Collection[int]) -> int | None:
    """Return the GPU instance id of the part that the processes are on; None when nothing tells.

    Without a process on any part it is told only where the card shows a single one, as it does in a container that was
    given one. Processes on two parts are two servers, or one that cannot be spoken of as on one device.
    """
    parts = [part for gpu in samples for part in gpu.parts]
    own = {part.instance for part in parts if not set(part.process_memory).isdisjoint(pids)}
    shown = own or {part.instance for part in parts}
    return shown.pop() if len(shown) == 1 else None


def processes_of(hosts: Sequence[HostSample]) -> set[int]:
    """Return every process that was in the server's tree at any time."""
    trees = ({process.pid for process in host.processes} | {host.server_pid or 0} for host in hosts)
    return {pid for tree in trees for pid in tree if pid}


def as_seen_from(samples: Sequence[Gpu], hosts: Sequence[HostSample]) -> list[Gpu]:
    """Return the samples of a card with memory, processes and activity of the server's own part.

    Power, clocks and faults stay the card's, which all parts share. A sample in which the part was not read, and all
    where nothing tells which it is, has neither memory nor activity.
    """
    if not any(gpu.parts for gpu in samples):
        return list(samples)
    instance = occupied(samples, processes_of(hosts))
    return [_with(gpu, next((part for part in gpu.parts if part.instance == instance), None)) for gpu in samples]


def _with(card: Gpu, part: Gpu | None) -> Gpu:
    part = part or Gpu(index=card.index)
    return replace(
        card,
        utilization=None,
        instance=part.instance,
        memory_used_bytes=part.memory_used_bytes,
        memory_total_bytes=part.memory_total_bytes,
        process_memory=part.process_memory,
        process_names=part.process_names,
        process_sm=None,
        graphics_active=part.graphics_active,
        sm_active=part.sm_active,
        sm_occupancy=part.sm_occupancy,
        tensor_active=part.tensor_active,
        dram_active=part.dram_active,
    )
