"""What can be seen of an incident."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.wire.records import BodyKind, Scrape
from tests.benchmark.kinds.world import Incident

_BESIDES = frozenset(
    {
        BodyKind.STATISTICS,
        BodyKind.INDEX,
        BodyKind.CONFIG,
        BodyKind.SERVER,
        BodyKind.HOST,
        BodyKind.REPOSITORY,
        BodyKind.LOG,
    }
)
_ALL = frozenset(BodyKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What is recorded.

    Attributes:
        hidden: kinds that are not.
        traces: whether the server sends any.
        clients: whether what clients saw is known.
        interval: seconds between two reads.
        late: seconds after the fault began at which the recording begins; 0 for a recording that begins before.
        log: whether the server's log is there.
        hole: seconds around the beginning of the fault, or the middle, of which nothing was read; 0 for none.
    """

    hidden: frozenset[BodyKind] = frozenset()
    traces: bool = False
    clients: bool = True
    interval: float = 2.0
    late: float = 0.0
    log: bool = False
    hole: float = 0.0

    def shows(self, scrape: Scrape) -> bool:
        """Return whether a scrape is part of the recording."""
        return scrape.kind not in self.hidden


SIGHTS = {
    "full": Sight(traces=True, log=True),
    "untraced": Sight(clients=False),
    "no-statistics": Sight(hidden=frozenset({BodyKind.STATISTICS}), clients=False),
    "metrics-15s": Sight(hidden=_BESIDES, clients=False, interval=15.0),
    "late": Sight(late=2.5),
    "all-15s": Sight(clients=False, interval=15.0),
    "metrics-and-clients": Sight(hidden=_BESIDES, interval=5.0),
    "hole": Sight(clients=False, hole=10.0),
}


def sight_of(incident: Incident) -> Sight:
    """Return what can be seen of an incident."""
    return SIGHTS[incident.sight]
