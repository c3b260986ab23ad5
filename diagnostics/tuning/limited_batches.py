"""What a batching stage with a limited queue turns away in the course of one execution.

A batch takes all that waits, so that a queue of about a batch begins anew with each of them. What comes meanwhile finds
its places taken, or waits for longer than it may, at any load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp

from diagnostics.tuning.batching import Bulk, all_busy, residuals
from diagnostics.tuning.limited import Kept

_ROUNDS = 30
_CLOSE = 1e-4
# Terms of a Poisson distribution that are summed; with more of them, or a larger mean, only its mean counts.
_MOST_TERMS = 512


@dataclass(frozen=True, slots=True)
class _Cycle:
    """Items that come while a batch is waited for, by what becomes of them, and the seconds that those kept wait."""

    kept: float
    lost: float
    waited: float


# Of the seconds until a batch is cut.
Collects = Callable[[float], _Cycle]


def lost_for_places(bulk: Bulk, places: int) -> Kept:
    """Return what is lost where `places` items may wait: Poisson arrivals beyond them until an instance is free.

    Those kept come first, and so wait for most of that time.
    """

    def collects(seconds: float) -> _Cycle:
        come = bulk.rate * seconds
        lost = _beyond(come, places)
        kept = come - lost
        return _Cycle(kept, lost, kept * (seconds - min(seconds, places / bulk.rate) / 2))

    # A batch of the size that ends the window early may be more than may wait: then all of the window is waited for.
    return _kept(bulk, collects, bulk.window if bulk.fire > places else 0.0)


def lost_for_patience(bulk: Bulk, patience: float) -> Kept:
    """Return what is lost where items leave after `patience` seconds: all that come earlier before a batch."""

    def collects(seconds: float) -> _Cycle:
        stay = min(patience, seconds)
        return _Cycle(bulk.rate * stay, bulk.rate * (seconds - stay), bulk.rate * stay**2 / 2)

    return _kept(bulk, collects, 0.0)


def _kept(bulk: Bulk, collects: Collects, window: float) -> Kept:
    """Return what is lost of all items, by the mean batch that its own execution collects (`batching.bulk_wait`).

    Batches that find an instance free, and those that collected nothing, begin with the next item.
    """
    if bulk.rate <= 0:
        return Kept(lost=0.0, wait=0.0)
    size, lost, waited = 1.0, 0.0, 0.0
    for _ in range(_ROUNDS):
        until_free = [max(each, window) for each in residuals(bulk.instances, bulk.occupancy(size))]
        cycles = [collects(seconds) for seconds in until_free]
        empty = sum(exp(-one.kept) for one in cycles) / len(cycles)
        share = all_busy(bulk, bulk.occupancy(size), empty)
        alone = 1 - share + share * empty
        lost = share * sum(one.lost for one in cycles) / len(cycles)
        waited = share * sum(one.waited for one in cycles) / len(cycles)
        now = min(max(share * sum(one.kept for one in cycles) / len(cycles) + alone, 1.0), float(bulk.max_batch))
        if abs(now - size) < _CLOSE * size:
            break
        size += (now - size) / 2
    return Kept(lost=lost / (lost + size), wait=waited / size)


def _beyond(mean: float, places: int) -> float:
    """Return by how much a Poisson number exceeds `places` on average."""
    if places > _MOST_TERMS or mean > _MOST_TERMS:
        return max(mean - places, 0.0)
    term = exp(-mean)
    at_least = 1.0 - term
    for k in range(1, places):
        term *= mean / k
        at_least -= term
    more = at_least - term * mean / places
    return max(mean * at_least - places * more, 0.0)
