"""Devices and processors that executions share."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def _devices(resource: Resource) -> Sequence[str]:
    if resource.devices == 1:
        return (resource.name,)
    return tuple(f"{resource.name}/{number}" for number in range(resource.devices))


class ProcessorSharing:
    """Resources in processor sharing, as a fluid.

    An execution runs at full speed until what is demanded of one of its resources passes the capacity; beyond it all
    that demand it are slowed by the ratio. Where it demands several, the scarcest sets its speed.
    """

    __slots__ = ("_alone", "_capacity", "_clock", "_demanded", "_devices", "_paces", "_speeds")

    def __init__(self, clock: EventQueue, resources: Iterable[Resource]) -> None:
        self._clock, self._alone = clock, Alone(clock)
        self._devices = {resource.name: _devices(resource) for resource in resources}
        self._capacity = {
            name: resource.capacity / resource.devices
            for resource in resources
            for name in self._devices[resource.name]
        }
        self._demanded = dict.fromkeys(self._capacity, 0.0)
        self._speeds = dict.fromkeys(self._capacity, 1.0)
        self._paces: dict[frozenset[str], _Pace] = {}

    def computing(self, demand: Mapping[str, float], instances: int = 1) -> Computing:
        """Return what the executions of a model with this demand and so many instances compute on."""
        shared = {name: amount for name, amount in demand.items() if amount > 0 and name in self._devices}
        if not shared:
            return self._alone
        most = max(len(self._devices[name]) for name in shared)
        each = [self._on(shared, number) for number in range(most)]
        return each[0] if most == 1 else SpreadComputing(each, instances)

    def _on(self, demand: Mapping[str, float], number: int) -> SharedComputing:
        own = {self._devices[name][number % len(self._devices[name])]: amount for name, amount in demand.items()}
        names = frozenset(own)
        if names not in self._paces:
            self._paces[names] = _Pace(self._clock, names, self._ended)
        return SharedComputing(self, self._paces[names], own)

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


class SpreadComputing:
    """Executions of a model with as many instances on each of several devices.

    An execution takes the instance that has been idle for longest: the threads of a model's instances wait for work in
    turn (Triton 2.51, rate_limiter.cc: one condition variable for all).
    """

    __slots__ = ("_each", "_idle")

    def __init__(self, each: Sequence[SharedComputing], instances: int) -> None:
        self._each = each
        self._idle = deque(number % len(each) for number in range(max(instances, 1)))

    def run(self, now: float, execution: Execution, ended: Ended) -> SharedExecution:
        """Run an execution on the device of an idle instance."""
        at = self._idle.popleft() if self._idle else 0

        def over(then: float, done: Execution) -> None:
            self._idle.append(at)
            ended(then, done)

        return self._each[at].run(now, execution, over)
