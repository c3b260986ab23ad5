"""Whether a server's rows show together that several servers answer under its address.

One row has too few reads to show it where its version was listed for a while only, and of what one source shows too
little may be wrong to tell it from restarts. Then no difference of two reads means anything, in either source.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from typing import TypeVar

from diagnostics.window.counters import MOST_JUMPS, NEIGHBOURS, CounterTable, most_jumps

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
        begun_anew: whether something else tells why these rows begin at zero at a read, by its steady time: one model
            was loaded, and its ensembles with it, or the server was restarted.

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
