"""How a request goes through an entry's graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from diagnostics.tuning.simulation.clock import Clock
from diagnostics.tuning.simulation.observing import EntryLog
from diagnostics.tuning.simulation.scenario import Entry

# Called with the time at which a request was answered or failed, and whether it failed.
Answered = Callable[[float, bool], None]


class Station(Protocol):
    """A model's scheduler: takes visits, and calls `visit.stage.done` or `.refuse`."""

    def join(self, now: float, visit: Visit) -> None: ...


class Request:
    """A request inside."""

    __slots__ = ("answered", "arrived", "awaited", "failed", "open_ends")

    def __init__(self, now: float, awaited: list[int], open_ends: int, answered: Answered | None) -> None:
        self.arrived = now
        self.awaited = awaited
        self.open_ends = open_ends
        self.failed = False
        self.answered = answered


class Visit:
    """A request at one of its stages; `joined` is when its queue time began."""

    __slots__ = ("items", "joined", "priority", "request", "stage")

    def __init__(self, request: Request, stage: Stage, items: int, priority: int) -> None:
        self.request = request
        self.stage = stage
        self.items = items
        self.priority = priority
        self.joined = 0.0


class Stage:
    """A step, joined to what follows it."""

    __slots__ = ("_clock", "_flow", "_gap", "_joins", "_next", "_position", "_station", "_tail", "followers", "needs")

    def __init__(self, clock: Clock, flow: Flow, position: int, station: Station) -> None:
        step = flow.entry.steps[position]
        self._clock, self._flow, self._position, self._station = clock, flow, position, station
        self._gap, self._tail = step.gap_seconds, step.tail_seconds
        self.needs = len(step.after)
        self._joins = station.join
        self.followers: list[Stage] = []

    def begin(self, now: float, visit: Visit) -> None:
        """Let a request come to this stage, after its gap."""
        visit.stage = self
        if self._gap > 0:
            self._clock.at(now + self._gap, self._join, visit)
        else:
            visit.joined = now
            self._joins(now, visit)

    def _join(self, now: float, visit: Visit) -> None:
        visit.joined = now
        self._joins(now, visit)

    def done(self, now: float, visit: Visit) -> None:
        """Be told that the execution ended."""
        if self._tail > 0:
            self._clock.at(now + self._tail, self._ended, visit)
        else:
            self._ended(now, visit)

    def _ended(self, now: float, visit: Visit) -> None:
        followers = self.followers
        if visit.request.failed:
            return
        if not followers:
            self._flow.end(now, visit.request)
        elif len(followers) == 1 and followers[0].needs == 1:
            followers[0].begin(now, visit)
        else:
            self._fork(now, visit)

    def _fork(self, now: float, visit: Visit) -> None:
        request = visit.request
        for follower in self.followers:
            request.awaited[follower._position] -= 1
            if request.awaited[follower._position] == 0:
                follower.begin(now, Visit(request, follower, visit.items, visit.priority))

    def refuse(self, now: float, visit: Visit) -> None:
        """Be told that a queue policy turned the request away: the whole request fails."""
        self._flow.fail(now, visit.request)


class Flow:
    """An entry's graph, through which its requests go."""

    __slots__ = ("_ends", "_first", "_log", "_needs", "_simple", "entry")

    def __init__(self, clock: Clock, entry: Entry, stations: Mapping[str, Station], log: EntryLog) -> None:
        self.entry = entry
        self._log = log
        stages = [Stage(clock, self, k, stations[step.model]) for k, step in enumerate(entry.steps)]
        for stage, step in zip(stages, entry.steps, strict=True):
            for before in step.after:
                stages[before].followers.append(stage)
        self._first = [stage for stage in stages if not stage.needs]
        self._ends = sum(not stage.followers for stage in stages)
        self._needs = [stage.needs for stage in stages]
        self._simple = all(stage.needs <= 1 and len(stage.followers) <= 1 for stage in stages)

    def arrive(self, now: float, items: int, priority: int, answered: Answered | None) -> None:
        """Let a request arrive; `answered` is called when it was answered or has failed."""
        self._log.arrives(now)
        request = Request(now, [] if self._simple else self._needs.copy(), self._ends, answered)
        for stage in self._first:
            stage.begin(now, Visit(request, stage, items, priority))

    def end(self, now: float, request: Request) -> None:
        """Be told that the request reached one of the graph's ends."""
        request.open_ends -= 1
        if request.open_ends == 0:
            self._log.answered(now, request.arrived)
            if request.answered:
                request.answered(now, False)

    def fail(self, now: float, request: Request) -> None:
        """Be told that the request failed; what still runs for it runs on."""
        if request.failed:
            return
        request.failed = True
        self._log.fails(now, request.arrived)
        if request.answered:
            request.answered(now, True)
