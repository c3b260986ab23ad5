"""Triton's rate limiter: what executions must hold of counted resources before they start.

Read in rate_limiter.cc of releases 24.10 and 26.06. A payload that was handed over waits for an instance; the pair is
*staged*, and the staged pair whose instance has executed least comes first, over all models. Only that one is tried,
once for each pair staged and each execution released: one that needs much holds up those behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.visits import SimulatedVisit

Start = Callable[[float], None]


class Limited:
    """A model under the rate limiter.

    Attributes:
        needs: what one execution holds of each resource.
        deferred: starts of the payloads that no instance is set apart for.
        available: executions so far of each instance that is not staged or executing (a heap).
        executing: the same of those that execute, in the order of their start.

    """

    __slots__ = ("available", "deferred", "executing", "needs")

    def __init__(self, needs: Mapping[str, int], instances: int) -> None:
        self.needs = needs
        self.deferred: deque[Start] = deque()
        self.available = [0] * instances
        self.executing: deque[int] = deque()


class RateLimiter:
    """The resources, and who waits for them."""

    __slots__ = ("_free", "_order", "_staged")

    def __init__(self, resources: Mapping[str, int]) -> None:
        self._free = dict(resources)
        self._staged: list[tuple[int, int, Limited, Start]] = []
        self._order = count().__next__

    def defer(self, now: float, model: Limited, start: Start) -> None:
        """Take a payload; `start(time)` is called when it holds an instance and its resources."""
        model.deferred.append(start)
        self._stage(now, model)

    def release(self, now: float, model: Limited) -> None:
        """Note that an execution of the model gave its instance and its resources back."""
        for name, amount in model.needs.items():
            self._free[name] = self._free.get(name, 0) + amount
        heappush(model.available, model.executing.popleft() + 1)
        self._stage(now, model)
        self._attempt(now)

    def _stage(self, now: float, model: Limited) -> None:
        while model.deferred and model.available:
            heappush(self._staged, (heappop(model.available), self._order(), model, model.deferred.popleft()))
            self._attempt(now)

    def _attempt(self, now: float) -> None:
        if not self._staged:
            return
        executed, _, model, start = self._staged[0]
        if any(self._free.get(name, 0) < amount for name, amount in model.needs.items()):
            return
        heappop(self._staged)
        for name, amount in model.needs.items():
            self._free[name] -= amount
        model.executing.append(executed)
        start(now)


class Execution:
    """A batch that runs.

    Attributes:
        begun: when an instance took it; later by what its calls of other models took.
        visits: the requests in it.
        work: seconds that it takes alone.
        noted: position of its first request in the log's service times; None where it is not observed.
        queue: what its instance holds, where that matters.

    """

    __slots__ = ("begun", "noted", "queue", "visits", "work")

    def __init__(self, begun: float, visits: Sequence[SimulatedVisit], work: float, noted: int | None) -> None:
        self.begun, self.visits, self.work, self.noted = begun, visits, work, noted
        self.queue: deque[Execution] | None = None


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

    def start(self, now: float, visits: Sequence[SimulatedVisit], items: int) -> None:
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

    __slots__ = ("_queues",)

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
        self._queues: list[deque[Execution]] = [deque() for _ in range(model.instances)]

    def _run(self, now: float, execution: Execution) -> None:
        queue = min(self._queues, key=len)
        execution.queue = queue
        queue.append(execution)
        if len(queue) == 1:
            self._compute(now, execution)

    def _ended(self, now: float, execution: Execution) -> None:
        queue = execution.queue
        assert queue is not None
        queue.popleft()
        if queue:
            self._compute(now, queue[0])
        super()._ended(now, execution)
