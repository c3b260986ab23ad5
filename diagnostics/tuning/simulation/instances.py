"""Instances that execute batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.visits import SimulatedVisit


class Execution:
    """A batch that runs.

    Attributes:
        begun: when an instance took it; later by what its calls of other models took.
        visits: the requests in it.
        work: seconds that it takes alone.
        noted: position of its first request in the log's service times; None where it is not observed.
        lane: the instance, where that matters.

    """

    __slots__ = ("begun", "lane", "noted", "visits", "work")

    def __init__(self, begun: float, visits: Sequence[SimulatedVisit], work: float, noted: int | None) -> None:
        self.begun, self.visits, self.work, self.noted = begun, visits, work, noted
        self.lane: deque[Execution] | None = None


Ended = Callable[[float, Execution], None]


class Computing(Protocol):
    """What executions compute on: calls `ended` when the work is done."""

    def run(self, now: float, execution: Execution, ended: Ended) -> object: ...


class Alone:
    """Executions that nothing slows."""

    __slots__ = ("_at",)

    def __init__(self, clock: EventQueue) -> None:
        self._at = clock.at

    def run(self, now: float, execution: Execution, ended: Ended) -> None:
        self._at(now + execution.work, ended, execution)


class Instances:
    """A model's instances.

    An execution holds its instance until a dispatch gap after its end; its responses leave before the gap.

    Attributes:
        idle: executions that could begin; its scheduler counts them down.
        respond: called with the time and a visit whose execution ended.

    """

    __slots__ = ("_at", "_computing", "_freed", "_gap", "_held", "_log", "_seconds", "idle", "respond")

    def __init__(
        self,
        clock: EventQueue,
        log: ModelLog,
        model: Model,
        seconds: Callable[[int], float],
        computing: Computing,
        freed: Callable[[float], None],
    ) -> None:
        self._at, self._log, self._seconds, self._freed = clock.at, log, seconds, freed
        self._gap, self._computing = model.service.dispatch_gap, computing
        self._held = model.held(0) - model.service.time(0)
        self.idle = model.instances * model.in_flight
        self.respond: Callable[[float, SimulatedVisit], None] | None = None

    def take(self, now: float, visits: Sequence[SimulatedVisit], items: int) -> None:
        """Begin an execution on an instance that the scheduler no longer counts as idle."""
        log, seconds = self._log, self._seconds(items)
        log.executed(now, items)
        noted = log.noted(now)
        for visit in visits:
            log.taken(now, visit.joined, seconds)
        self._run(now, Execution(now, visits, seconds, noted))

    def _run(self, now: float, execution: Execution) -> None:
        self._compute(now, execution)

    def _compute(self, now: float, execution: Execution) -> None:
        self._log.running.enter(now)
        self._computing.run(now, execution, self._ended)

    def _ended(self, now: float, execution: Execution) -> None:
        if execution.noted is not None:
            self._log.served(execution.noted, len(execution.visits), now - execution.begun)
        self._log.running.leave(now + self._held)
        self._at(now + self._gap, self._free, None)
        if self.respond is None:
            for visit in execution.visits:
                visit.stage.done(now, visit)
        else:
            for visit in execution.visits:
                self.respond(now, visit)

    def _free(self, now: float, _: object) -> None:
        self._freed(now)


class Overlapping(Instances):
    """Instances that hold several executions at once, which compute one after the other."""

    __slots__ = ("_lanes",)

    def __init__(
        self,
        clock: EventQueue,
        log: ModelLog,
        model: Model,
        seconds: Callable[[int], float],
        computing: Computing,
        freed: Callable[[float], None],
    ) -> None:
        super().__init__(clock, log, model, seconds, computing, freed)
        self._lanes: list[deque[Execution]] = [deque() for _ in range(model.instances)]

    def _run(self, now: float, execution: Execution) -> None:
        lane = min(self._lanes, key=len)
        execution.lane = lane
        lane.append(execution)
        if len(lane) == 1:
            self._compute(now, execution)

    def _ended(self, now: float, execution: Execution) -> None:
        lane = execution.lane
        assert lane is not None
        lane.popleft()
        if lane:
            self._compute(now, lane[0])
        super()._ended(now, execution)
