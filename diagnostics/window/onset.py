"""When something began: the stretch of a series that differs most from the rest, if it differs enough.

A fault may end inside the window (a stall) or last to its end, so a stretch has two ends. Each candidate stretch is
compared with everything outside it by a pooled t statistic; a straight line through the series is the rival: what
grows all the time began before the window, and has no onset in it.
Source: Levin and Kline 1985, epidemic alternatives of the change-point problem; Bonferroni over the candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import sqrt
from statistics import linear_regression

import msgspec

# Two steps to the end: one step alone is an outlier, and the first after an onset mixes before and after.
FEWEST_STEPS = 2
# What ends inside the window may be short: one step that stands far above the rest, as requests after a stall do. An
# exponential series of twenty steps reaches twenty times the mean of its others once in ten million.
SPIKE_FACTOR = 20.0
# Outside the stretch three steps must be left: a level needs a spread to be compared with.
FEWEST_OUTSIDE = 3
# Student's t at 1e-3 with Bonferroni over some hundred stretches is 5.5 for fifteen degrees of freedom; queues are
# autocorrelated, which the test does not know, hence more.
SIGNIFICANT = 8.0
# What a user notices as a change at all: half as much again.
CHANGE_FACTOR = 1.5
# Longer series are not scanned; the caller asks for at most so many spans.
MOST_STEPS = 64


# Each series is compared at hundreds: a structure is made in a fifth of a frozen dataclass's time.
class ChangeInterval(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A stretch of a series that differs: positions [first, last), its mean, the mean outside, the t statistic."""

    first: int
    last: int
    inside: float
    outside: float
    t: float


def rise(values: Sequence[float], *, ended: float = SPIKE_FACTOR) -> ChangeInterval | None:
    """Return the stretch in which a series stands highest above the rest; None when no rise is certain.

    A stretch that begins with the series is no onset: then the fault was there from the start, and None is returned.
    The values are per-step means in any unit, at most `MOST_STEPS` of them. A stretch that lasts to their end stands
    out by `CHANGE_FACTOR`, one that ends before by `ended`: less than its default for what is as steady as a machine.
    """
    count = len(values)
    if not FEWEST_STEPS + FEWEST_OUTSIDE <= count <= MOST_STEPS or max(values) < CHANGE_FACTOR * min(values):
        return None
    sums = list(accumulate(values, initial=0.0))
    squares = sum(value * value for value in values)
    candidates = (
        _compare(sums, squares, first, last)
        for first in range(count)
        for last in range(first + 1, count + 1)
        if count - (last - first) >= FEWEST_OUTSIDE and (last < count or last - first >= FEWEST_STEPS)
    )
    best = max(candidates, key=lambda found: found.t)
    factor = CHANGE_FACTOR if best.last == count else ended
    if best.first == 0 or best.t < SIGNIFICANT or best.inside < factor * best.outside:
        return None
    return best if _residue(values, best) < _line_residue(values) else None


def _compare(sums: Sequence[float], squares: float, first: int, last: int) -> ChangeInterval:
    """Compare a stretch with the rest, from running sums of the values and the sum of their squares."""
    count, length = len(sums) - 1, last - first
    others, inside = count - length, sums[last] - sums[first]
    high, low = inside / length, (sums[count] - inside) / others
    within = max(squares - length * high**2 - others * low**2, 0.0)
    # A spread of nothing, as synthetic series have, must not divide by zero: a thousandth of the level stands for it.
    pooled = max(sqrt(within / (count - 2)), 1e-3 * abs(low), 1e-12)
    t = (high - low) / (pooled * sqrt(1 / length + 1 / others))
    return ChangeInterval(first=first, last=last, inside=high, outside=low, t=t)


def _residue(values: Sequence[float], found: ChangeInterval) -> float:
    levels = (found.inside if found.first <= i < found.last else found.outside for i in range(len(values)))
    return sum((value - level) ** 2 for value, level in zip(values, levels, strict=True))


def _line_residue(values: Sequence[float]) -> float:
    line = linear_regression(range(len(values)), values)
    return sum((value - line.intercept - line.slope * i) ** 2 for i, value in enumerate(values))
