"""Clients that wait for their answers before they ask again, at a chain of models, written with `simpy`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from random import Random
from typing import Any

import simpy

Process = Generator[Any, Any, None]


class Clients:
    """`clients` that each think for `think` seconds on average between an answer and the next request.

    Each of the models executes one request at a time, for its seconds, and then waits out the gap.
    """

    def __init__(self, clients: int, think: float, seconds: Sequence[float], gap: float, rng: Random) -> None:
        self.environment = simpy.Environment()
        self._lanes = [simpy.Resource(self.environment) for _ in seconds]
        self._clients, self._think, self._seconds, self._gap, self._rng = clients, think, seconds, gap, rng
        self.waits: list[list[float]] = [[] for _ in seconds]
        self.latencies: list[float] = []

    def run(self, until: float) -> Clients:
        for _ in range(self._clients):
            self.environment.process(self._client())
        self.environment.run(until)
        return self

    def _client(self) -> Process:
        while True:
            arrived = self.environment.now
            for stage, lane in enumerate(self._lanes):
                joined, turn = self.environment.now, lane.request()
                yield turn
                self.waits[stage].append(self.environment.now - joined)
                yield self.environment.timeout(self._seconds[stage])
                self.environment.process(self._release(lane, turn))
            self.latencies.append(self.environment.now - arrived)
            yield self.environment.timeout(self._rng.expovariate(1 / self._think))

    def _release(self, lane: simpy.Resource, turn: Any) -> Process:
        yield self.environment.timeout(self._gap)
        lane.release(turn)
