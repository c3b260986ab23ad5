"""Who sends requests, and when."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import arrivals
from diagnostics.tuning.simulation.scenario import ClosedLoop, OpenLoop
from diagnostics.tuning.simulation.visits import Flow

# A client that is refused learns it after a round trip at the soonest: without one, a closed loop at a full queue
# would ask without end at one instant. 1 ms is what a request and its refusal take over HTTP in one data centre.
_REFUSAL = 0.001


def start(clock: EventQueue, traffic: OpenLoop | ClosedLoop, flow: Flow, rng: Random) -> None:
    """Let traffic begin."""
    if isinstance(traffic, OpenLoop):
        _Arrivals(clock, traffic, flow, rng).plan()
        return
    for _ in range(traffic.clients):
        clock.at(0.0, _Client(clock, traffic, flow, rng).send, None)


class _Arrivals:
    """Requests that come whatever the server does."""

    __slots__ = ("_clock", "_flow", "_items", "_priority", "_times")

    def __init__(self, clock: EventQueue, traffic: OpenLoop, flow: Flow, rng: Random) -> None:
        self._clock, self._flow = clock, flow
        self._items, self._priority = traffic.items, traffic.priority
        self._times: Iterator[float] = arrivals(traffic, rng)

    def plan(self) -> None:
        time = next(self._times, None)
        if time is not None:
            self._clock.at(time, self._arrive, None)

    def _arrive(self, now: float, _: object) -> None:
        self._flow.arrive(now, self._items, self._priority, None)
        self.plan()


class _Client:
    """A client that waits for its answer before it asks again."""

    __slots__ = ("_clock", "_flow", "_rng", "_traffic")

    def __init__(self, clock: EventQueue, traffic: ClosedLoop, flow: Flow, rng: Random) -> None:
        self._clock, self._traffic, self._flow, self._rng = clock, traffic, flow, rng

    def send(self, now: float, _: object) -> None:
        self._flow.arrive(now, self._traffic.items, 0, self._answered)

    def _answered(self, now: float, failed: bool) -> None:
        mean = self._traffic.think_seconds
        think = self._rng.expovariate(1 / mean) if mean > 0 else 0.0
        # Planned rather than sent at once, so that no scheduler is asked anew while it answers.
        self._clock.at(now + (max(think, _REFUSAL) if failed else think), self.send, None)
