"""A chain of first-come, first-served models with instances and a dispatch gap, written with `simpy`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

Process = Generator[Any, Any, None]


class Chain:
    """`stages` models in a row; each execution takes what `work` says, by stage and request, and then the gap."""

    def __init__(self, times: Sequence[float], work: Sequence[Sequence[float]], gap: float) -> None:
        self.environment = simpy.Environment()
        self._lanes = [simpy.Resource(self.environment) for _ in work]
        self._times, self._work, self._gap = times, work, gap
        self.waits: list[list[float]] = [[] for _ in work]
        self.latencies: list[float] = []

    def run(self) -> Chain:
        self.environment.process(self._arrive())
        self.environment.run()
        return self

    def _arrive(self) -> Process:
        for position, time in enumerate(self._times):
            yield self.environment.timeout(time - self.environment.now)
            self.environment.process(self._request(position))

    def _request(self, position: int) -> Process:
        arrived = self.environment.now
        for stage, lane in enumerate(self._lanes):
            joined, turn = self.environment.now, lane.request()
            yield turn
            self.waits[stage].append(self.environment.now - joined)
            yield self.environment.timeout(self._work[stage][position])
            # The response leaves before the gap, which the instance still waits out.
            self.environment.process(self._release(lane, turn))
        self.latencies.append(self.environment.now - arrived)

    def _release(self, lane: simpy.Resource, turn: Any) -> Process:
        yield self.environment.timeout(self._gap)
        lane.release(turn)
