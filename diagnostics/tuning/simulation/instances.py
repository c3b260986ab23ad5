"""Instances that execute batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from diagnostics.tuning.simulation.clock import Clock
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.visits import Visit


class Execution:
    """A batch that runs; `work` is the seconds that it takes alone."""

    __slots__ = ("begun", "visits", "work")

    def __init__(self, begun: float, visits: Sequence[Visit], work: float) -> None:
        self.begun, self.visits, self.work = begun, visits, work


class Instances:
    """A model's instances.

    An execution holds its instance until a dispatch gap after its end; its responses leave before the gap.

    Attributes:
        idle: instances that could take a batch.

    """

    __slots__ = ("_at", "_freed", "_gap", "_log", "_seconds", "idle")

    def __init__(
        self,
        clock: Clock,
        log: ModelLog,
        count: int,
        seconds: Callable[[int], float],
        gap: float,
        freed: Callable[[float], None],
    ) -> None:
        self._at, self._log, self._seconds, self._gap, self._freed = clock.at, log, seconds, gap, freed
        self.idle = count

    def take(self, now: float, visits: Sequence[Visit], items: int) -> None:
        """Begin an execution on an instance that its scheduler no longer counts as idle."""
        log, seconds = self._log, self._seconds(items)
        log.executed(now, items)
        for visit in visits:
            log.taken(now, visit.joined, seconds)
        self._run(now, Execution(now, visits, seconds))

    def _run(self, now: float, execution: Execution) -> None:
        self._at(now + execution.work, self._ended, execution)

    def _ended(self, now: float, execution: Execution) -> None:
        self._log.occupied(execution.begun, now + self._gap)
        self._at(now + self._gap, self._free, None)
        for visit in execution.visits:
            visit.stage.done(now, visit)

    def _free(self, now: float, _: object) -> None:
        self._freed(now)
