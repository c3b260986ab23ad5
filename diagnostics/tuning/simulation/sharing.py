"""Devices and processors that executions share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from math import inf

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.instances import Alone, Computing, Ended, Execution
from diagnostics.tuning.simulation.scenario import Resource

# Speeds that differ by less are equal: sums of demands are rounded.
_ROUNDING = 1e-9


class SharedExecution:
    """An execution on its resources.

    Attributes:
        pace: those that it runs as fast as.
        begun: work that each of these had done as it began, in seconds alone.
        ends: the same as it ends.

    """

    __slots__ = ("begun", "demand", "ended", "ends", "execution", "pace")

    def __init__(
        self, pace: _Pace, now: float, execution: Execution, demand: Mapping[str, float], ended: Ended
    ) -> None:
        self.pace, self.execution, self.demand, self.ended = pace, execution, demand, ended
        self.begun = pace.done(now)
        self.ends = self.begun + execution.work


class _Pace:
    """Executions that demand the same resources, and so run at one speed.

    In any time each has as much work done as every other: a change of speed leaves the order in which they end.

    Attributes:
        names: the resources.
        speed: seconds of work that each does in a second.

    """

    __slots__ = ("_at", "_done", "_due", "_ended", "_order", "_running", "_since", "names", "speed")

    def __init__(
        self, clock: EventQueue, names: Iterable[str], ended: Callable[[float, SharedExecution], None]
    ) -> None:
        self._at, self._ended, self.names = clock.at, ended, tuple(names)
        # By the work at which each ends; an execution that was cut is in it again.
        self._running: list[tuple[float, int, SharedExecution]] = []
        self._order = count().__next__
        self._done = self._since = 0.0
        self._due, self.speed = inf, 1.0

    def done(self, now: float) -> float:
        """Return the work that an execution had done by now which began with the run, in seconds alone."""
        return self._done + (now - self._since) * self.speed

    def run(self, share: SharedExecution) -> None:
        """Take an execution, or a new end of one; to be planned."""
        heappush(self._running, (share.ends, self._order(), share))

    def change(self, now: float, speed: float) -> None:
        """Let all run at a speed from now on; to be planned."""
        self._done, self._since, self.speed = self.done(now), now, speed

    def plan(self, now: float) -> None:
        """Plan the end of the execution that ends first."""
        running = self._running
        while running and running[0][0] != running[0][2].ends:
            heappop(running)
        due = self._since + (running[0][0] - self._done) / self.speed if running else inf
        if due < now:
            due = now
        if due != self._due:
            self._due = due
            if running:
                self._at(due, self._end, None)

    def _end(self, now: float, _: object) -> None:
        # Plans that a change made void are left in the event list.
        if now != self._due:
            return
        share = heappop(self._running)[2]
        share.ends = self._due = inf
        self._ended(now, share)


class ProcessorSharing:
    """Resources in processor sharing, as a fluid.

    An execution runs at full speed until what is demanded of one of its resources passes the capacity; beyond it all
    that demand it are slowed by the ratio. Where it demands several, the scarcest sets its speed.
    """

    __slots__ = ("_alone", "_capacity", "_clock", "_demanded", "_paces", "_speeds")

    def __init__(self, clock: EventQueue, resources: Iterable[Resource]) -> None:
        self._clock, self._alone = clock, Alone(clock)
        self._capacity = {resource.name: resource.capacity for resource in resources}
        self._demanded = dict.fromkeys(self._capacity, 0.0)
        self._speeds = dict.fromkeys(self._capacity, 1.0)
        self._paces: dict[frozenset[str], _Pace] = {}

    def computing(self, demand: Mapping[str, float]) -> Computing:
        """Return what the executions of a model with this demand compute on."""
        shared = {name: amount for name, amount in demand.items() if amount > 0 and name in self._capacity}
        if not shared:
            return self._alone
        names = frozenset(shared)
        if names not in self._paces:
            self._paces[names] = _Pace(self._clock, names, self._ended)
        return SharedComputing(self, self._paces[names], shared)

    def add(self, now: float, share: SharedExecution) -> None:
        share.pace.run(share)
        self._change(now, share, 1)

    def cut(self, now: float, share: SharedExecution, work: float) -> None:
        """Let an execution end when so much of its work is done, which is no less than is done by now."""
        share.ends, share.execution.work = share.begun + work, work
        share.pace.run(share)
        share.pace.plan(now)

    def _change(self, now: float, share: SharedExecution, sign: int) -> None:
        slowed = False
        for name, amount in share.demand.items():
            demanded = self._demanded[name] = self._demanded[name] + sign * amount
            capacity = self._capacity[name]
            speed = capacity / demanded if demanded > capacity else 1.0
            if abs(speed - self._speeds[name]) > _ROUNDING:
                self._speeds[name], slowed = speed, True
        if slowed:
            for pace in self._paces.values():
                speed = min([self._speeds[name] for name in pace.names])
                if abs(speed - pace.speed) > _ROUNDING:
                    pace.change(now, speed)
                    if pace is not share.pace:
                        pace.plan(now)
        share.pace.plan(now)

    def _ended(self, now: float, share: SharedExecution) -> None:
        self._change(now, share, -1)
        share.ended(now, share.execution)


class SharedComputing:
    """Executions of one model on shared resources."""

    __slots__ = ("_demand", "_pace", "_sharing")

    def __init__(self, sharing: ProcessorSharing, pace: _Pace, demand: Mapping[str, float]) -> None:
        self._sharing, self._pace, self._demand = sharing, pace, demand

    def run(self, now: float, execution: Execution, ended: Ended) -> SharedExecution:
        share = SharedExecution(self._pace, now, execution, self._demand, ended)
        self._sharing.add(now, share)
        return share

    def done(self, now: float, share: SharedExecution) -> float:
        """Return how much of an execution's work is done."""
        return self._pace.done(now) - share.begun

    def cut(self, now: float, share: SharedExecution, work: float) -> None:
        """Let an execution end when so much of its work is done, which is no less than is done by now."""
        self._sharing.cut(now, share, work)
