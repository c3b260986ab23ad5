"""How a request goes through an entry's graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from diagnostics.tuning.simulation.clock import Call, Clock
from diagnostics.tuning.simulation.draws import factors, stream
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
    """A step, joined to what follows it.

    Attributes:
        needs: steps that it waits for.
        followers: the stages that wait for it.
        done: to be called with the time and a visit whose execution ended.

    """

    __slots__ = ("_clock", "_flow", "_position", "_step", "_vary", "done", "followers", "join", "needs")

    def __init__(self, clock: Clock, flow: Flow, position: int, station: Station, seed: int) -> None:
        self._clock, self._flow, self._position = clock, flow, position
        self._step = flow.entry.steps[position]
        self._vary = factors(self._step.tail_scv, stream(seed, f"tail {flow.entry.name} {position}"))
        self.needs = len(self._step.after)
        self.join = station.join
        self.followers: list[Stage] = []
        self.done: Call = self._done

    def link(self) -> None:
        """Take the short way where one stage simply follows; to be called when all followers are known."""
        alone = len(self.followers) == 1 and self.followers[0].needs == 1 and self._flow.plain
        if not alone or self._step.tail_seconds > 0 or self.followers[0]._step.gap_seconds > 0:
            return
        follower = self.followers[0]
        join = follower.join

        def passed(now: float, visit: Visit) -> None:
            visit.stage = follower
            visit.joined = now
            join(now, visit)

        self.done = passed

    def begin(self, now: float, visit: Visit) -> None:
        """Let a request come to this stage, after its gap."""
        visit.stage = self
        if self._step.gap_seconds > 0:
            self._clock.at(now + self._step.gap_seconds, self._join, visit)
        else:
            self._join(now, visit)

    def _join(self, now: float, visit: Visit) -> None:
        visit.joined = now
        self.join(now, visit)

    def _done(self, now: float, visit: Visit) -> None:
        tail = self._step.tail_seconds
        if tail > 0:
            self._clock.at(now + (tail * self._vary() if self._vary else tail), self._ended, visit)
        else:
            self._ended(now, visit)

    def _ended(self, now: float, visit: Visit) -> None:
        request = visit.request
        if request.failed:
            return
        if not self.followers:
            self._flow.end(now, request)
        for follower in self.followers:
            if follower.needs > 1:
                request.awaited[follower._position] -= 1
                if request.awaited[follower._position]:
                    continue
            follower.begin(now, Visit(request, follower, visit.items, visit.priority))

    def refuse(self, now: float, visit: Visit) -> None:
        """Be told that a queue policy turned the request away: the whole request fails."""
        self._flow.fail(now, visit.request)


class Flow:
    """An entry's graph, through which its requests go.

    Attributes:
        entry: what it is made of.
        plain: whether its stages follow each other in a row.

    """

    __slots__ = ("_ends", "_first", "_log", "_needs", "entry", "plain")

    def __init__(self, clock: Clock, entry: Entry, stations: Mapping[str, Station], log: EntryLog, seed: int) -> None:
        self.entry = entry
        self._log = log
        stages = [Stage(clock, self, k, stations[step.model], seed) for k, step in enumerate(entry.steps)]
        for stage, step in zip(stages, entry.steps, strict=True):
            for before in step.after:
                stages[before].followers.append(stage)
        self._first = [stage for stage in stages if not stage.needs]
        self._ends = sum(not stage.followers for stage in stages)
        self._needs = [stage.needs for stage in stages]
        # One stage after the other: a request is at one of them at a time, and where it fails, nothing is left.
        self.plain = len(self._first) == 1 and all(stage.needs <= 1 and len(stage.followers) <= 1 for stage in stages)
        for stage in stages:
            stage.link()

    def arrive(self, now: float, items: int, priority: int, answered: Answered | None) -> None:
        """Let a request arrive; `answered` is called when it was answered or has failed."""
        self._log.arrives(now)
        request = Request(now, [] if self.plain else self._needs.copy(), self._ends, answered)
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
