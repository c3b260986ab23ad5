"""Batches between the batcher and the instances."""

from __future__ import annotations

from collections import deque

from diagnostics.tuning.simulation.visits import SimulatedVisit


class Payload:
    """A batch that an instance will take.

    Attributes:
        visits: what is in it.
        items: their items.
        oldest: when the first of them joined the queue, in seconds.
        handed: whether it was handed over to the instances.
        taken: whether an instance has taken it, or marked it as taken.

    """

    __slots__ = ("handed", "items", "oldest", "taken", "visits")

    def __init__(self) -> None:
        self.visits: list[SimulatedVisit] = []
        self.items = 0
        self.oldest = float("inf")
        self.handed = False
        self.taken = False

    def add(self, visits: list[SimulatedVisit]) -> None:
        self.visits += visits
        for visit in visits:
            self.items += visit.items
            if visit.joined < self.oldest:
                self.oldest = visit.joined


def take_first(ready: deque[Payload], now: float, delay: float, max_batch: int) -> Payload:
    """Take the first payload, and with a window those behind it whose window is over and that fit (instance_queue.cc).

    The first that does not fit any more counts as taken, so that it no longer grows, although it stays.
    """
    first = ready.popleft()
    first.taken = True
    while delay > 0 and max_batch > 1 and ready and now - ready[0].oldest > delay:
        ready[0].taken = True
        if first.items + ready[0].items > max_batch:
            break
        first.add(ready.popleft().visits)
    return first
