"""Where more load stops to pay."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics.bench.block import percentile
from diagnostics.bench.report import RESAMPLES, BenchReport, LoadPoint, TargetResult, differences, resampled

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


# What a recommendation is held to, and what is left out at each end of an interval of 90 %.
CONFIDENCE = 0.95
# Lengths of answers that differ by less cannot explain a difference that anyone would route traffic by.
_SAME_TOKENS = 0.01


class CrossoverOutcome(StrEnum):
    """What two curves do over the loads that both were measured at."""

    CROSSOVER = "crossover"
    FIRST_BETTER = "first-better"
    SECOND_BETTER = "second-better"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two targets under the same loads.

    Attributes:
        measure: what they are compared by; less is better.
        outcome: what the curves do.
        loads: the loads that both were measured at.
        ratios: the second target's value over the first's at each of them.
        low_load_better: the better one at the lowest load, 0 or 1.
        load: the load at which the curves cross; None unless they do.
        between: the measured loads on its sides: it is interpolated between them; None as `load`.
        low, high: 90 % of bootstrap samples cross between these; None as `load`. What the curves do between measured
            loads is no part of that.
        confidence: share of bootstrap samples that have this outcome; None with one block a load.

    """

    measure: str
    outcome: CrossoverOutcome
    loads: tuple[float, ...]
    ratios: tuple[float, ...]
    low_load_better: int
    load: float | None = None
    between: tuple[float, float] | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None


def unmatched(one: BenchReport, other: BenchReport) -> tuple[str, ...]:
    """Return how two tests of one target each differ in what makes them incomparable; empty where they match."""
    a, b = one.targets[0], other.targets[0]
    found = list(differences(a.workload, b.workload))
    for what, mine, theirs in (
        ("loop", one.loop, other.loop),
        ("measured seconds", one.seconds, other.seconds),
        ("seed", one.seed, other.seed),
        ("limits", str(one.limits) or "none", str(other.limits) or "none"),
    ):
        if mine != theirs:
            found.append(f"{what}: {mine} against {theirs}")
    return (*found, *_lengths(a, b))


def _lengths(one: TargetResult, other: TargetResult) -> Iterator[str]:
    """Answers that were counted must be equally long: a shorter one is sooner done."""
    mine, theirs = tokens_of(one), tokens_of(other)
    if mine and theirs and abs(mine / theirs - 1) > _SAME_TOKENS:
        yield f"tokens of an answer: {mine:.4g} against {theirs:.4g}"


def tokens_of(target: TargetResult) -> float | None:
    """Return the mean number of tokens of its answers; None where one block's were not counted."""
    blocks = [block for point in target.points for block in point.blocks]
    counted = [block.tokens for block in blocks if block.tokens is not None]
    return sum(counted) / len(counted) if counted and len(counted) == len(blocks) else None


def compare(one: TargetResult, other: TargetResult, measure: str = "mean", seed: int = 0) -> Comparison | None:
    """Return how two targets compare over the loads that both have; None where there are none.

    The curves' ratio is followed over the logarithm of the load; where it passes 1 they cross. A crossover, or that one
    is better throughout, is said where 95 % of bootstrap samples over the blocks say the same, else `undecided`.

    Args:
        one: a target.
        other: the target to hold against it.
        measure: a latency of MEASURES. In a closed loop mean latency and throughput cross at the same load, as one is
            the other's inverse there (Little's law, N = X·R).
        seed: of the bootstrap.

    """
    samples = _paired(one, other, measure)
    if not samples:
        return None
    loads = tuple(load for load, _, _ in samples)
    ratios = tuple(_mean(theirs) / _mean(mine) for _, mine, theirs in samples)
    outcome, load, low_load_better = _course(loads, ratios)
    repeated = all(len(mine) > 1 and len(theirs) > 1 for _, mine, theirs in samples)
    drawn = [_course(loads, each) for each in _drawn(samples, seed)] if repeated else []
    alike = [at for what, at, better in drawn if (what, better) == (outcome, low_load_better)]
    confidence = len(alike) / len(drawn) if drawn else None
    sure = confidence is not None and confidence >= CONFIDENCE
    crossings = sorted(at for at in alike if at is not None)
    crosses = outcome is CrossoverOutcome.CROSSOVER
    return Comparison(
        measure=measure,
        outcome=outcome if sure else CrossoverOutcome.UNDECIDED,
        loads=loads,
        ratios=ratios,
        low_load_better=low_load_better,
        load=load if crosses else None,
        between=_between(loads, load) if crosses and load is not None else None,
        low=percentile(crossings, _TAIL) if crosses else None,
        high=percentile(crossings, 1 - _TAIL) if crosses else None,
        confidence=confidence,
    )


def _paired(one: TargetResult, other: TargetResult, measure: str) -> list[tuple[float, list[float], list[float]]]:
    theirs = {point.load: point.values(measure) for point in other.points}
    paired = [(point.load, point.values(measure), theirs.get(point.load, [])) for point in one.points]
    return [(load, a, b) for load, a, b in paired if a and b]


def _drawn(samples: Sequence[tuple[float, list[float], list[float]]], seed: int) -> Iterator[tuple[float, ...]]:
    chance = random.Random(seed)  # noqa: S311 - a bootstrap, not a secret
    for _ in range(RESAMPLES):
        yield tuple(_positive(resampled(b, chance)) / _positive(resampled(a, chance)) for _, a, b in samples)


def _course(loads: Sequence[float], ratios: Sequence[float]) -> tuple[CrossoverOutcome, float | None, int]:
    """Return what curves of such ratios do, where they cross once, and which is better at the lowest load."""
    heights = [math.log(ratio) for ratio in ratios]
    turns = [at for at in range(1, len(heights)) if (heights[at] > 0) != (heights[at - 1] > 0)]
    better = 0 if heights[0] > 0 else 1
    if not turns:
        return (CrossoverOutcome.SECOND_BETTER if better else CrossoverOutcome.FIRST_BETTER), None, better
    if len(turns) > 1:
        return CrossoverOutcome.UNDECIDED, None, better
    at = turns[0]
    part = heights[at - 1] / (heights[at - 1] - heights[at])
    low, high = math.log(loads[at - 1]), math.log(loads[at])
    return CrossoverOutcome.CROSSOVER, math.exp(low + part * (high - low)), better


def _between(loads: Sequence[float], load: float) -> tuple[float, float]:
    return max(one for one in loads if one <= load), min(one for one in loads if one >= load)


def _positive(value: float) -> float:
    """A widened bootstrap mean of times may fall below zero."""
    return max(value, 1e-9)
