"""The default scheduler: one request per execution, first come, first served."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapreplace

from diagnostics.tuning.simulation.clock import Clock
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.visits import Visit


class Unbatched:
    """Instances that share nothing: who takes a request, and when, is known as it arrives."""

    __slots__ = ("_at", "_free", "_gap", "_log", "_seconds")

    def __init__(
        self, clock: Clock, log: ModelLog, instances: int, seconds: Callable[[int], float], gap: float
    ) -> None:
        self._at, self._log, self._seconds, self._gap = clock.at, log, seconds, gap
        self._free = [0.0] * instances

    def join(self, now: float, visit: Visit) -> None:
        """Queue a visit for the instance that is free first."""
        free, log = self._free, self._log
        begun = free[0]
        if begun < now:
            begun = now
        seconds = self._seconds(visit.items)
        ended = begun + seconds
        heapreplace(free, ended + self._gap)
        self._at(ended, visit.stage.done, visit)
        log.joined(now)
        log.taken(begun, now, seconds)
        log.executed(begun, visit.items)
        log.occupied(begun, ended + self._gap)
