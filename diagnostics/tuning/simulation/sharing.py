"""Devices and processors that executions share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.instances import Alone, Computing, Ended, Execution
from diagnostics.tuning.simulation.scenario import Resource

# Speeds that differ by less are equal: sums of demands are rounded.
_ROUNDING = 1e-9


class SharedExecution:
    """An execution on its resources: the work that is left, in seconds alone, as of `since`, and its speed."""

    __slots__ = ("demand", "ended", "execution", "left", "plan", "since", "speed")

    def __init__(self, now: float, execution: Execution, demand: Mapping[str, float], ended: Ended) -> None:
        self.execution, self.demand, self.ended = execution, demand, ended
        self.left, self.since = execution.work, now
        self.speed = self.plan = 0.0


class ProcessorSharing:
    """Resources in processor sharing, as a fluid.

    An execution runs at full speed until what is demanded of one of its resources passes the capacity; beyond it all
    that demand it are slowed by the ratio. Where it demands several, the scarcest sets its speed.
    """

    __slots__ = ("_alone", "_at", "_capacity", "_demanded", "_running", "_speeds")

    def __init__(self, clock: EventQueue, resources: Iterable[Resource]) -> None:
        self._at, self._alone = clock.at, Alone(clock)
        self._capacity = {resource.name: resource.capacity for resource in resources}
        self._demanded = dict.fromkeys(self._capacity, 0.0)
        self._speeds = dict.fromkeys(self._capacity, 1.0)
        self._running: dict[int, SharedExecution] = {}

    def computing(self, demand: Mapping[str, float]) -> Computing:
        """Return what the executions of a model with this demand compute on."""
        shared = {name: amount for name, amount in demand.items() if amount > 0 and name in self._capacity}
        return SharedComputing(self, shared) if shared else self._alone

    def add(self, now: float, share: SharedExecution) -> None:
        self._running[id(share)] = share
        self._change(now, share.demand, 1)
        if share.speed == 0.0:
            self._pace(now, share)

    def cut(self, now: float, share: SharedExecution, work: float) -> None:
        """Let an execution end when so much of its work is done, which is no less than is done by now."""
        share.left -= (now - share.since) * share.speed + share.execution.work - work
        share.execution.work, share.since = work, now
        share.plan = now + max(share.left, 0.0) / share.speed
        self._at(share.plan, self._due, share)

    def _change(self, now: float, demand: Mapping[str, float], sign: int) -> None:
        slowed = False
        for name, amount in demand.items():
            self._demanded[name] += sign * amount
            speed = min(self._capacity[name] / max(self._demanded[name], _ROUNDING), 1.0)
            if abs(speed - self._speeds[name]) > _ROUNDING:
                self._speeds[name], slowed = speed, True
        if slowed:
            for share in self._running.values():
                self._pace(now, share)

    def _pace(self, now: float, share: SharedExecution) -> None:
        speed = min(self._speeds[name] for name in share.demand)
        if abs(speed - share.speed) <= _ROUNDING:
            return
        share.left -= (now - share.since) * share.speed
        share.since, share.speed = now, speed
        share.plan = now + max(share.left, 0.0) / speed
        self._at(share.plan, self._due, share)

    def _due(self, now: float, share: SharedExecution) -> None:
        # Plans that a change of speed made void are left in the event list.
        if now != share.plan or self._running.pop(id(share), None) is None:
            return
        self._change(now, share.demand, -1)
        share.ended(now, share.execution)


class SharedComputing:
    """Executions of one model on shared resources."""

    __slots__ = ("_demand", "_sharing")

    def __init__(self, sharing: ProcessorSharing, demand: Mapping[str, float]) -> None:
        self._sharing, self._demand = sharing, demand

    def run(self, now: float, execution: Execution, ended: Ended) -> SharedExecution:
        share = SharedExecution(now, execution, self._demand, ended)
        self._sharing.add(now, share)
        return share

    def done(self, now: float, share: SharedExecution) -> float:
        """Return how much of an execution's work is done."""
        return share.execution.work - share.left + (now - share.since) * share.speed

    def cut(self, now: float, share: SharedExecution, work: float) -> None:
        """Let an execution end when so much of its work is done, which is no less than is done by now."""
        self._sharing.cut(now, share, work)
