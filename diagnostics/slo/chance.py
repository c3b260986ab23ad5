"""What chance alone does to counts: intervals of a share, and of how many events are too many for luck."""

from __future__ import annotations

import math

# Two-sided 95 %.
_Z = 1.959964


def share_interval(bad: float, total: float) -> tuple[float, float]:
    """Return the interval of the share of bad events behind a count, at about 95 %; (0, 1) where there were none.

    Wilson's score interval (Wilson 1927), which holds for few events and for none bad, where the usual one does not
    (Brown, Cai and DasGupta 2001, "Interval estimation for a binomial proportion").
    """
    if total <= 0:
        return 0.0, 1.0
    share, square = min(bad / total, 1.0), _Z * _Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    spread = _Z / (1 + square / total) * math.sqrt(share * (1 - share) / total + square / (4 * total * total))
    low = 0.0 if bad <= 0 else max(middle - spread, 0.0)
    return low, 1.0 if bad >= total else min(middle + spread, 1.0)


def count_interval(count: float) -> tuple[float, float]:
    """Return the interval of the expected number of events where `count` were seen, at about 95 %.

    Byar's approximation of the exact Poisson interval (Breslow and Day 1987, p. 69).
    """
    high_count = count + 1
    high = high_count * (1 - 1 / (9 * high_count) + _Z / (3 * math.sqrt(high_count))) ** 3
    if count <= 0:
        return 0.0, high
    return count * (1 - 1 / (9 * count) - _Z / (3 * math.sqrt(count))) ** 3, high


def at_least(count: int, expected: float) -> float:
    """Return how probable it is that `count` events or more happen where `expected` do on average (Poisson)."""
    term, below = math.exp(-expected), 0.0
    for number in range(count):
        below += term
        term *= expected / (number + 1)
    return max(1.0 - below, 0.0)
