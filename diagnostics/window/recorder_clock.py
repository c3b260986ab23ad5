"""What a recorder's clock did to the reads of a server: gave all of them one time, or the later ones earlier times.

Counters of one server rise between two reads, but where it restarts. Filed in reversed order they fall at every read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from diagnostics.window.counters import CounterTable
from diagnostics.window.view import METRICS, STATISTICS, ModelView

# A server that restarts between any two reads stands at random wherever it is read: six such reads fall five times in
# a row in one of 6! = 720 cases.
FEWEST_FALLS = 5


class ClockFault(StrEnum):
    """What a clock did."""

    BACKWARDS = "ran backwards"
    STILL = "stood still"


def clock_faults(view: ModelView) -> Mapping[str, ClockFault]:
    """Return what is the matter with the times of a server's reads, by source; nothing where nothing shows any.

    Only a clock shows at one source that it ran backwards, and at both what that does.
    """
    server = view.server
    if any(_only_fall(tables.values()) for tables in server.tables.values()):
        return dict.fromkeys((STATISTICS, METRICS), ClockFault.BACKWARDS)
    return {source: ClockFault.STILL for source, reads in server.reads.items() if _at_one_time(reads)}


def _at_one_time(reads: Sequence[tuple[float, float]]) -> bool:
    return len(reads) > 1 and len({mono for _, mono in reads}) == 1


def _only_fall(tables: Iterable[CounterTable]) -> bool:
    rows = list(tables)
    return any(len(row.fell_at) >= FEWEST_FALLS for row in rows) and not any(row.rose for row in rows)
