"""Whether counts per interval are more uneven than chance makes them, and what the crowded intervals cost."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, sqrt
from statistics import correlation, fmean, linear_regression

# The chi-squared approximation of a dispersion test wants five expected events per interval (Cochran 1954).
EXPECTED_PER_BIN = 5.0
# Fewer intervals than this, and one burst decides everything.
FEWEST_BINS = 8


@dataclass(frozen=True, slots=True)
class ArrivalBin:
    """One interval.

    Attributes:
        seconds: its length.
        count: requests that arrived in it.
        latency: their mean latency; None without any.
        held: whether requests may have been held until it: a model was loaded in it or just before.

    """

    seconds: float
    count: float
    latency: float | None
    held: bool = False


def _merged(bins: Sequence[ArrivalBin], by: int) -> list[ArrivalBin]:
    groups = [bins[i : i + by] for i in range(0, len(bins) - by + 1, by)]
    return [ArrivalBin(sum(b.seconds for b in group), sum(b.count for b in group), None) for group in groups]


@dataclass(frozen=True, slots=True)
class Dispersion:
    """Index of dispersion, its standard score against a Poisson process, and how many intervals it rests on."""

    index: float
    z: float
    bins: int


def dispersion(bins: Sequence[ArrivalBin]) -> Dispersion | None:
    """Return the index of dispersion at the interval length where it is most certain; None with too little to tell.

    Differences of successive intervals take out what changes slowly (von Neumann 1941), and the largest difference is
    left out: one change of level is a shift of load, a burst has two. For requests that come in groups, the index is
    the mean size of the group that a request arrives in, at any interval length (Fendick and Whitt 1989).
    """
    rate = sum(one.count for one in bins) / max(sum(one.seconds for one in bins), 1e-9)
    if rate <= 0:
        return None
    mean = fmean(one.seconds for one in bins) * rate
    by, found = max(ceil(EXPECTED_PER_BIN / mean), 1), []
    while len(bins) // by >= FEWEST_BINS:
        found.append(_dispersion(_merged(bins, by), rate))
        by *= 2
    return max(found, key=lambda one: one.z, default=None)


def _dispersion(bins: Sequence[ArrivalBin], rate: float) -> Dispersion:
    residues = [(one.count - rate * one.seconds) / sqrt(rate * one.seconds) for one in bins]
    squares = sorted((after - before) ** 2 for before, after in pairwise(residues))[:-1]
    count = len(squares)
    index = sum(squares) / (2 * count)
    # Successive differences overlap: as many degrees of freedom as give their mean square its variance.
    freedom = 2 * count**2 / (3 * count - 1)
    return Dispersion(index, _score(index * freedom, freedom), len(bins))


def _score(chi_squared: float, freedom: float) -> float:
    """Return the standard normal score of a chi-squared value (Wilson and Hilferty 1931)."""
    spread = 2 / (9 * freedom)
    return float(((chi_squared / freedom) ** (1 / 3) - (1 - spread)) / sqrt(spread))


@dataclass(frozen=True, slots=True)
class Crowding:
    """How latency goes with company.

    Attributes:
        z: standard score of the rank correlation between an interval's requests and their latency.
        tail_seconds: what requests of the most crowded twentieth would lose if the same requests came evenly, by that
            line.
        saved_seconds: what the mean would lose if the same requests came evenly, by the line through the intervals.

    """

    z: float
    tail_seconds: float
    saved_seconds: float


def crowding(bins: Sequence[ArrivalBin]) -> Crowding | None:
    """Return how latency goes with company; None with too few intervals that had requests."""
    busy = [(one.count, one.latency) for one in bins if one.latency is not None and one.count > 0]
    if len(busy) < FEWEST_BINS or len({count for count, _ in busy}) < 2:
        return None
    counts, latencies = [count for count, _ in busy], [latency for _, latency in busy]
    rank = correlation(_ranks(counts), _ranks(latencies)) if len(set(latencies)) > 1 else 0.0
    weighted = sum(n * n for n in counts) / sum(counts)
    slope = linear_regression(counts, latencies).slope
    even = sum(one.count for one in bins) / len(bins)
    return Crowding(
        z=rank * sqrt(len(busy) - 1),
        tail_seconds=max(slope, 0.0) * max(_met_by_few(counts) - even, 0.0),
        saved_seconds=max(slope, 0.0) * max(weighted - even, 0.0),
    )


def _ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank, equal ones sharing the mean of theirs (Spearman's correlation is that of ranks)."""
    ordered = sorted(values)
    return [(bisect_left(ordered, value) + bisect_right(ordered, value) - 1) / 2 for value in values]


def _met_by_few(counts: Sequence[float]) -> float:
    """Return how many requests are in the interval of a request that one in twenty is more crowded than."""
    left = 0.05 * sum(counts)
    for count in sorted(counts, reverse=True):
        left -= count
        if left <= 0:
            return count
    return 0.0


def evened(bins: Sequence[ArrivalBin]) -> list[ArrivalBin]:
    """Return the intervals as if all were equally long."""
    mean = fmean(one.seconds for one in bins)
    return [replace(one, seconds=mean) for one in bins]
