"""What was measured of a deployment under a load: the server's own times, with an interval for each."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.prediction.disturbance import Machine

BLOCKS = 20
RESAMPLES = 300
_TAILS = (0.05, 0.95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A measured number with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a stage did; None where nothing was executed or traced. Times in seconds.

    Attributes:
        model: its name.
        queue_mean: mean time in its queue.
        queue_p95: 95th percentile of the same.
        busy_share: share of time an instance executes; of an engine, share of its slots that are taken.
        batch_size_mean: items per execution.

    """

    model: str
    queue_mean: float | None
    queue_p95: float | None
    busy_share: float
    batch_size_mean: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measurement.

    Attributes:
        name: of the job.
        began: seconds from the load's start to the first read.
        seconds: from the first read to the last.
        mean: seconds end to end, from the ensemble's counters; its interval from traces.
        p95: 95th percentile of the same, from traces.
        throughput: answered requests per second.
        failed: requests per second that were not answered with a result.
        stages: in the order of the deployment.
        load_seconds: for how long the load was drawn, from its start on: other lengths are other arrivals.
        machine: what the processors did.
        disturbed: what makes it no measurement of the server alone, in words; empty where nothing does.

    """

    name: str
    began: float
    seconds: float
    mean: Interval
    p95: Interval
    throughput: float
    failed: float
    stages: tuple[Stage, ...]
    load_seconds: float
    machine: Machine
    disturbed: str = ""

    @property
    def busy_share(self) -> float:
        """The busiest stage's."""
        return max(stage.busy_share for stage in self.stages)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the order statistic of the nearest rank, of at least one value."""
    return sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]


def bootstrap(
    timed: Sequence[tuple[float, float]], statistic: Callable[[Sequence[float]], float], seed: int = 1
) -> Interval:
    """Return a statistic of (instant, value) pairs with the interval of a bootstrap over blocks of time.

    Neighbouring requests wait for the same ones, so blocks of a twentieth of the time are drawn, not requests
    (Künsch, The jackknife and the bootstrap for general stationary observations, 1989).
    """
    first, last = min(at for at, _ in timed), max(at for at, _ in timed)
    blocks: list[list[float]] = [[] for _ in range(BLOCKS)]
    for at, value in timed:
        blocks[min(int((at - first) / ((last - first) or 1.0) * BLOCKS), BLOCKS - 1)].append(value)
    chance = random.Random(seed)
    drawn = sorted(
        statistic(sample)
        for _ in range(RESAMPLES)
        if (sample := [value for block in chance.choices(blocks, k=BLOCKS) for value in block])
    )
    low, high = (drawn[round(tail * (len(drawn) - 1))] for tail in _TAILS)
    return Interval(value=statistic([value for _, value in timed]), low=low, high=high)


def mean_of(counted: float, timed: Sequence[tuple[float, float]]) -> Interval:
    """Return the mean of the counters, with an interval as wide as that of the traced requests."""
    traced = bootstrap(timed, fmean)
    shift = counted - traced.value
    return Interval(value=counted, low=traced.low + shift, high=traced.high + shift)
