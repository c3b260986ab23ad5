"""A model that calls another from inside its executions, written with `simpy`: first come, first served."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

Process = Generator[Any, Any, None]


class Caller:
    """A caller of `own` seconds that then calls each of `called` (instances, seconds) in turn, holding its instance."""

    def __init__(self, times: Sequence[float], instances: int, own: float, called: Sequence[tuple[int, float]]) -> None:
        self.environment = simpy.Environment()
        self._caller = simpy.Resource(self.environment, instances)
        self._called = [(simpy.Resource(self.environment, count), seconds) for count, seconds in called]
        self._times, self._own = times, own
        self.waits: list[float] = []
        self.inner_waits: list[list[float]] = [[] for _ in called]
        self.latencies: list[float] = []

    def run(self) -> Caller:
        self.environment.process(self._arrive())
        self.environment.run()
        return self

    def _arrive(self) -> Process:
        for time in self._times:
            yield self.environment.timeout(time - self.environment.now)
            self.environment.process(self._request())

    def _request(self) -> Process:
        arrived = self.environment.now
        with self._caller.request() as turn:
            yield turn
            self.waits.append(self.environment.now - arrived)
            yield self.environment.timeout(self._own)
            for (resource, seconds), waits in zip(self._called, self.inner_waits, strict=True):
                yield from self._call(resource, seconds, waits)
        self.latencies.append(self.environment.now - arrived)

    def _call(self, resource: simpy.Resource, seconds: float, waits: list[float]) -> Process:
        joined = self.environment.now
        with resource.request() as turn:
            yield turn
            waits.append(self.environment.now - joined)
            yield self.environment.timeout(seconds)
