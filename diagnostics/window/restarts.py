"""What tells that a server was restarted between two of its reads, besides its counters.

Counters of all models that begin at zero again and again may be those of servers behind one address that were started
lately. A server that was restarted answered nothing meanwhile, or its process is another one and has used less of the
processor than before, or its index or its log told that its models were being loaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from diagnostics.window.logs import LogEvent, LogKind
from diagnostics.wire.host import HostSample
from diagnostics.wire.server import IndexEntry

_READY = "READY"
_LOADING = "LOADING"


class Between(NamedTuple):
    """The read after which counters began anew, and the one that shows it; Unix seconds."""

    since: float
    at: float


def restart_told(
    reads: Between,
    models: Collection[str],
    *,
    failed: Iterable[float],
    hosts: Sequence[HostSample],
    index: Iterable[tuple[float, Sequence[IndexEntry]]],
    log: Iterable[LogEvent],
) -> bool:
    """Return whether something tells that the server was restarted between two reads.

    Args:
        reads: the two.
        models: whose counters began anew; the log must tell that each of them was loaded.
        failed: Unix seconds of the reads that nobody answered.
        hosts: the samples of its machine, in time order.
        index: what it listed, by Unix seconds.
        log: the events of its log.

    """
    return (
        any(reads.since < at < reads.at for at in failed)
        or any(one.since < reads.at and reads.since < one.at for one in _new_processes(hosts))
        or any(reads.since < at <= reads.at and _none_ready(entries) for at, entries in index)
        or set(models) <= {one.model for one in log if one.kind is LogKind.LOADING and reads.since < one.at <= reads.at}
    )


def _new_processes(hosts: Sequence[HostSample]) -> Iterable[Between]:
    """Yield the neighbouring samples between which the server's process became another one; in a container by its
    processor time alone, as its number is the same each time.
    """
    for before, after in pairwise(hosts):
        if None in (before.at, after.at, before.server_pid, after.server_pid):
            continue
        used, later = _used(before), _used(after)
        fell = used is not None and later is not None and later < used
        if before.server_pid != after.server_pid or fell:
            yield Between(before.at or 0.0, after.at or 0.0)


def _used(sample: HostSample) -> float | None:
    """Return the seconds of a processor that the server's own process has used; None where they were not read."""
    return next((one.cpu_seconds for one in sample.processes if one.pid == sample.server_pid), None)


def _none_ready(entries: Sequence[IndexEntry]) -> bool:
    """Return whether models are being loaded and none is there yet."""
    states = {entry.state for entry in entries}
    return _LOADING in states and _READY not in states
