"""Responses in the order of their requests (`preserve_ordering`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from diagnostics.tuning.simulation.visits import SimulatedVisit


class Ordering:
    """Holds a response back until those of all requests that were batched before it have left.

    So the core did until release 25.08. Since 25.09 it takes a place in the order only when a response is there, which
    holds nothing back.
    """

    __slots__ = ("_batched", "_ready")

    def __init__(self) -> None:
        self._batched: deque[SimulatedVisit] = deque()
        self._ready: set[int] = set()

    def batched(self, visits: Iterable[SimulatedVisit]) -> None:
        """Be told of requests that left the queue for a payload."""
        self._batched.extend(visits)

    def respond(self, now: float, visit: SimulatedVisit) -> None:
        """Take a response, and let go all whose turn it is."""
        self._ready.add(id(visit))
        while self._batched and id(self._batched[0]) in self._ready:
            first = self._batched.popleft()
            self._ready.remove(id(first))
            first.stage.done(now, first)
