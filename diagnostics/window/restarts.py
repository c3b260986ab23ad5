"""What shows that a server was restarted between two reads, or that several servers answer under one address."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple, TypeVar

from diagnostics.window.counters import MOST_JUMPS, NEIGHBOURS, CounterTable, most_jumps
from diagnostics.window.logs import LogEvent, LogKind
from diagnostics.wire.host import HostSample
from diagnostics.wire.server import IndexEntry

_READY = "READY"
_LOADING = "LOADING"


class Between(NamedTuple):
    """The read after which counters began again, and the one that shows it; Unix seconds."""

    since: float
    at: float


def restart_reported(
    reads: Between,
    models: Collection[str],
    *,
    failed: Iterable[float],
    hosts: Sequence[HostSample],
    index: Iterable[tuple[float, Sequence[IndexEntry]]],
    log: Iterable[LogEvent],
) -> bool:
    """Return whether something shows that the server was restarted between two reads.

    Args:
        reads: the two.
        models: whose counters began again; the log must report that each of them was loaded.
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


# One row that jumps again and again is a version that is reloaded; several are what is behind the address.
_FEWEST_TOGETHER = 2
# A count of thirty is within a third of what it stands for (Poisson, 95 %): a third of it is no chance.
_ENOUGH_REQUESTS = 30
Key = TypeVar("Key", bound=Hashable)


def several_servers_answer(
    sources: Iterable[Mapping[Key, CounterTable]],
    begun_anew: Callable[[float, Collection[Key]], bool] = lambda _, __: False,
) -> bool:
    """Return whether the rows of a server's sources show together that its address leads to several servers.

    Either counters of most rows fall together, more often than those of a server that restarts may: a restart is seen
    in each source at about the same read, other servers' answers come at any read, in the one source or the other.
    Or the sources disagree about most rows, though they count the same. Single rows that fall are reloaded, which
    leaves the rest as good as any; what stands at zero cannot fall.

    Args:
        sources: all rows that a server has shown, by source.
        begun_anew: whether something else explains why these rows begin at zero at a read, by its steady time: one
            model was loaded, and its ensembles with it, or the server was restarted.

    """
    rows = [{key: table for key, table in tables.items() if table.counts} for tables in sources]
    return _fall_too_often(rows, begun_anew) or any(_disagree(one, other) for one, other in combinations(rows, 2))


def _fall_too_often(
    rows: Sequence[Mapping[Key, CounterTable]], begun_anew: Callable[[float, Collection[Key]], bool]
) -> bool:
    longest = max((table for tables in rows for table in tables.values()), key=lambda table: table.reads, default=None)
    fallen = sorted(at for tables in rows for at in _falls_of_most(tables, begun_anew))
    if longest is None or len(fallen) <= MOST_JUMPS:
        return False
    apart = [at for before, at in pairwise([float("-inf"), *fallen]) if at - before > longest.interval]
    return len(apart) > most_jumps(longest.reads)


def _disagree(one: Mapping[Key, CounterTable], other: Mapping[Key, CounterTable]) -> bool:
    """Return whether two sources count most of the rows that both have as no neighbours do that count the same."""
    pairs = [(table, other[key]) for key, table in one.items() if key in other]
    apart = [(a, b) for a, b in pairs if _far_apart(a, b)]
    return len(apart) >= _FEWEST_TOGETHER and 2 * len(apart) > len(pairs)


def _far_apart(one: CounterTable, other: CounterTable) -> bool:
    """Return whether one source counts several times as many requests a second as the other, and not by chance.

    A source that was read once has no rate.
    """
    if not (one.seconds and other.seconds):
        return False
    less, more = sorted((one.rate, other.rate))
    return more > NEIGHBOURS * less and more * max(one.seconds, other.seconds) >= _ENOUGH_REQUESTS


def _falls_of_most(
    tables: Mapping[Key, CounterTable], begun_anew: Callable[[float, Collection[Key]], bool]
) -> list[float]:
    """Return the steady times of the reads at which most rows fell, other than by loads and restarts."""
    fallen: dict[float, list[Key]] = {}
    for key, table in tables.items():
        for at in dict.fromkeys(table.fell_at):
            fallen.setdefault(at, []).append(key)
    most = {at: keys for at, keys in fallen.items() if len(keys) >= _FEWEST_TOGETHER and 2 * len(keys) > len(tables)}
    if len(most) <= MOST_JUMPS:
        return list(most)
    loads = {key: set(table.loaded_at) for key, table in tables.items()}
    return [at for at, keys in most.items() if not (all(at in loads[key] for key in keys) and begun_anew(at, keys))]
