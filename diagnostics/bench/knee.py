"""Where more load stops to pay."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.bench.block import percentile
from diagnostics.bench.estimate import RESAMPLES, resampled
from diagnostics.bench.report import LoadPoint

FEWEST_POINTS = 3
_TAIL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Knee:
    """The load at which power, throughput ÷ mean latency, is greatest.

    Kleinrock (Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer Communications, ICC 1979):
    where a system is full and no fuller. Of a closed loop it is Denning's and Buzen's saturation point N* = (D+Z)/Dmax
    (Operational Analysis of Queueing Network Models, 1978).

    Attributes:
        load: the measured load with the most power.
        low, high: the loads between which it lies in 90 % of bootstrap samples; None with one block a load.
        below: the knee may lie below the lowest load measured.
        above: it may lie above the highest.

    """

    load: float
    low: float | None
    high: float | None
    below: bool
    above: bool


def knee(points: Sequence[LoadPoint], seed: int = 0) -> Knee | None:
    """Return the knee of a sweep; None of fewer than three loads whose latency is known."""
    known = [point for point in points if point.values("mean")]
    if len(known) < FEWEST_POINTS:
        return None
    measured = [(point.load, point.values("throughput"), point.values("mean")) for point in known]
    power = [(_mean(rates) / _mean(means), load) for load, rates, means in measured]
    best = max(power)[1]
    low, high = _bounds(measured, seed) if all(len(point.blocks) > 1 for point in known) else (None, None)
    first, last = known[0].load, known[-1].load
    return Knee(load=best, low=low, high=high, below=(low or best) <= first, above=(high or best) >= last)


def _bounds(measured: Sequence[tuple[float, list[float], list[float]]], seed: int) -> tuple[float | None, float | None]:
    chance = random.Random(seed)  # noqa: S311 - a bootstrap, not a secret
    found = sorted(
        max((resampled(rates, chance) / max(resampled(means, chance), 1e-9), load) for load, rates, means in measured)[
            1
        ]
        for _ in range(RESAMPLES)
    )
    return percentile(found, _TAIL), percentile(found, 1 - _TAIL)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
