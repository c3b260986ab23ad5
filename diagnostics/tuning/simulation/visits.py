"""How a request goes through an entry's graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from diagnostics.tuning.simulation.clock import Call, EventQueue
from diagnostics.tuning.simulation.draws import factors, stream
from diagnostics.tuning.simulation.observing import EntryLog
from diagnostics.tuning.simulation.scenario import EntryGraph

# Called with the time at which a request was answered or failed, and whether it failed.
Answered = Callable[[float, bool], None]


class Station(Protocol):
    """A model's scheduler: takes visits, and calls `visit.stage.done` or `.refuse`."""

    def join(self, now: float, visit: SimulatedVisit) -> None: ...


class Request:
    """A request inside."""

    __slots__ = ("answered", "arrived", "awaited", "failed", "open_ends")

    def __init__(self, now: float, awaited: list[int], open_ends: int, answered: Answered | None) -> None:
        self.arrived = now
        self.awaited = awaited
        self.open_ends = open_ends
        self.failed = False
        self.answered = answered


class VisitTarget(Protocol):
    """Where a visit is made.

    Attributes:
        done: to be called with the time and a visit whose execution ended.

    """

    done: Call

    def refuse(self, now: float, visit: Any) -> None:
        """Note that a queue policy turned a visit away."""


class SimulatedVisit:
    """A visit to a model; `joined` is when its queue time began."""

    __slots__ = ("items", "joined", "priority", "stage")

    def __init__(self, stage: VisitTarget, items: int, priority: int) -> None:
        self.stage = stage
        self.items = items
        self.priority = priority
        self.joined = 0.0


class RequestVisit(SimulatedVisit):
    """A request at one of its stages."""

    __slots__ = ("request",)

    stage: StepNode

    def __init__(self, request: Request, stage: StepNode, items: int, priority: int) -> None:
        self.request = request
        self.stage = stage
        self.items = items
        self.priority = priority
        self.joined = 0.0


class StepNode:
    """A step, joined to what follows it.

    Attributes:
        gap: seconds before its queue.
        join: queue a visit at its model.
        needs: steps that it waits for.
        followers: the stages that wait for it.
        calls: the stages that its executions call.
        done: to be called with the time and a visit whose execution ended.

    """

    __slots__ = ("_clock", "_flow", "_position", "_step", "_vary", "calls", "done", "followers", "gap", "join", "needs")

    def __init__(self, clock: EventQueue, flow: Flow, position: int, station: Station, seed: int) -> None:
        self._clock, self._flow, self._position = clock, flow, position
        self._step = flow.entry.steps[position]
        self._vary = factors(self._step.tail_scv, stream(seed, f"tail {flow.entry.name} {position}"))
        self.gap = self._step.gap_seconds
        self.needs = len(self._step.after)
        self.join = station.join
        self.followers: list[StepNode] = []
        self.calls: list[StepNode] = []
        self.done: Call = self._done

    def link(self) -> None:
        """Take the short way where one stage simply follows or none; to be called when all followers are known."""
        if not self._flow.plain or self._step.tail_seconds > 0:
            return
        if not self.followers:
            self.done = self._flow.over
        elif not self.followers[0].gap:
            self.done = _passing(self.followers[0])

    def begin(self, now: float, visit: RequestVisit) -> None:
        """Let a request come to this stage, after its gap."""
        visit.stage = self
        if self.gap > 0:
            self._clock.at(now + self.gap, self._join, visit)
        else:
            self._join(now, visit)

    def _join(self, now: float, visit: RequestVisit) -> None:
        visit.joined = now
        self.join(now, visit)

    def _done(self, now: float, visit: RequestVisit) -> None:
        tail = self._step.tail_seconds
        if tail > 0:
            self._clock.at(now + (tail * self._vary() if self._vary else tail), self._ended, visit)
        else:
            self._ended(now, visit)

    def _ended(self, now: float, visit: RequestVisit) -> None:
        request = visit.request
        if request.failed:
            return
        if not self.followers:
            self._flow.over(now, visit)
        for follower in self.followers:
            if follower.needs > 1:
                request.awaited[follower._position] -= 1
                if request.awaited[follower._position]:
                    continue
            follower.begin(now, RequestVisit(request, follower, visit.items, visit.priority))

    def refuse(self, now: float, visit: RequestVisit) -> None:
        """Note that a queue policy turned the request away: the whole request fails."""
        self._flow.fail(now, visit.request)


class InnerVisit(RequestVisit):
    """A call from inside an execution; `returned` is called when it was answered or rejected."""

    __slots__ = ("returned",)

    def __init__(self, caller: RequestVisit, stage: StepNode, returned: Callable[[float], None]) -> None:
        super().__init__(caller.request, stage, caller.items, caller.priority)
        self.returned = returned


class InnerStage(StepNode):
    """A step that another one's execution calls: what follows is the caller's business."""

    __slots__ = ()

    def link(self) -> None:
        """Leave the way as it is: it leads back to the caller."""

    def _ended(self, now: float, visit: RequestVisit) -> None:
        assert isinstance(visit, InnerVisit)
        visit.returned(now)

    def refuse(self, now: float, visit: RequestVisit) -> None:
        """Note that a call was rejected: the request fails, and its caller is released."""
        super().refuse(now, visit)
        self._ended(now, visit)


def _passing(follower: StepNode) -> Call:
    """Return what lets a request come to the stage at once."""
    join = follower.join

    def passed(now: float, visit: RequestVisit) -> None:
        visit.stage = follower
        visit.joined = now
        join(now, visit)

    return passed


def _stage(clock: EventQueue, flow: Flow, position: int, station: Station, seed: int) -> StepNode:
    kind = StepNode if flow.entry.steps[position].caller is None else InnerStage
    return kind(clock, flow, position, station, seed)


def _outermost(entry: EntryGraph, position: int) -> int:
    """Return the position of the graph's own step that a step is part of."""
    while (caller := entry.steps[position].caller) is not None:
        position = caller
    return position


class Flow:
    """An entry's graph, through which its requests go.

    Attributes:
        entry: what it is made of.
        plain: whether its stages follow each other in a row, and call none.

    """

    __slots__ = ("_came", "_ends", "_first", "_left", "_lost", "_needs", "entry", "plain")

    def __init__(
        self, clock: EventQueue, entry: EntryGraph, stations: Mapping[str, Station], log: EntryLog, seed: int
    ) -> None:
        self.entry = entry
        self._came, self._left, self._lost = log.came.append, log.left, log.lost
        stages = [_stage(clock, self, k, stations[step.model], seed) for k, step in enumerate(entry.steps)]
        outer = [stage for stage, step in zip(stages, entry.steps, strict=True) if step.caller is None]
        for stage, step in zip(stages, entry.steps, strict=True):
            if step.caller is not None:
                stages[step.caller].calls.append(stage)
                continue
            for before in step.after:
                stages[_outermost(entry, before)].followers.append(stage)
        self._first = [stage for stage in outer if not stage.needs]
        self._ends = sum(not stage.followers for stage in outer)
        self._needs = [stage.needs for stage in stages]
        # One stage after the other: a request is at one of them at a time, and where it fails, nothing is left.
        alone = len(self._first) == 1 and all(stage.needs <= 1 and len(stage.followers) <= 1 for stage in outer)
        self.plain = alone and len(outer) == len(stages)
        for stage in stages:
            stage.link()

    def arrive(self, now: float, items: int, priority: int, answered: Answered | None) -> None:
        """Let a request arrive; `answered` is called when it was answered or has failed."""
        self._came(now)
        request = Request(now, [] if self.plain else self._needs.copy(), self._ends, answered)
        for stage in self._first:
            stage.begin(now, RequestVisit(request, stage, items, priority))

    def over(self, now: float, visit: RequestVisit) -> None:
        """Note that a visit reached one of the graph's ends."""
        request = visit.request
        request.open_ends -= 1
        if request.open_ends == 0:
            self._left.came.append(request.arrived)
            self._left.at.append(now)
            if request.answered:
                request.answered(now, False)

    def fail(self, now: float, request: Request) -> None:
        """Note that the request failed; what still runs for it runs on."""
        if request.failed:
            return
        request.failed = True
        self._lost.came.append(request.arrived)
        self._lost.at.append(now)
        if request.answered:
            request.answered(now, True)
