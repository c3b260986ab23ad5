"""What was measured of an entry, with an interval that knows that neighbouring requests wait together.

Waits of one queue are correlated: a thousand requests of a busy minute say less than a thousand minutes. So whole
stretches of time are resampled, not requests: the moving-block bootstrap (Künsch, "The jackknife and the bootstrap for
general stationary observations", Annals of Statistics 17, 1989), with blocks that wrap around the end of the window
(Politis & Romano, "A circular block-resampling procedure for stationary data", 1992), so that every stretch counts
alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil, sqrt
from random import Random
from statistics import NormalDist

from diagnostics.evidence.evidence import METRICS, STATISTICS, Evidence
from diagnostics.forecast.performance import Estimate
from diagnostics.signals.counting import ENOUGH_EVENTS, total
from diagnostics.signals.signal import Scope, Signal, Subject
from diagnostics.units import Unit
from diagnostics.window.view import Counter

# An end of the interval then moves by less than a twentieth of its width from seed to seed.
DRAWS = 1000
# Under four blocks there is no spread to speak of: the factor by which Student widens the interval passes 1.4.
FEWEST_BLOCKS = 4
LOW, HIGH = 0.05, 0.95

COMPLETED = Signal(
    name="requests_completed",
    unit=Unit.COUNT,
    scope=Scope.ENTRY,
    doc="Requests that were completed, from the source that is read first in a round.",
    readers=(total(METRICS, Counter.SUCCESS), total(STATISTICS, Counter.SUCCESS)),
)
TIME_SPENT = Signal(
    name="request_seconds_total",
    unit=Unit.SECONDS,
    scope=Scope.ENTRY,
    doc="Seconds that all completed requests took together.",
    readers=(
        total(METRICS, Counter.REQUEST_SECONDS, Unit.SECONDS),
        total(STATISTICS, Counter.REQUEST_SECONDS, Unit.SECONDS),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInterval:
    """What was counted between two reads: seconds of observation, requests completed, and what they took together."""

    seconds: float
    requests: float
    spent: float


def stretches(evidence: Evidence, on: Subject) -> Sequence[ObservedInterval]:
    """Return what was counted of an entry between each two reads, in time order; those without counters are left out.

    Of a model whose row ends where its engine begins, nothing is returned: its counters do not hold its time.
    """
    if on.model and evidence.is_engine(on) and not evidence.shows_engine_time(on):
        return []
    found = []
    for start, end in pairwise(evidence.moments(on.server)):
        done, spent = (evidence.read(signal, on, (start, end)).value for signal in (COMPLETED, TIME_SPENT))
        if done is not None and spent is not None and end > start:
            found.append(ObservedInterval(seconds=end - start, requests=done, spent=spent))
    return found


def mean_of(
    found: Sequence[ObservedInterval], block_seconds: float, seed: int = 0, *, draws: int = DRAWS
) -> Estimate | None:
    """Return the mean seconds of a request with its interval.

    None with fewer than thirty requests, or where the window holds fewer than four blocks.
    """
    requests, spent = sum(one.requests for one in found), sum(one.spent for one in found)
    length = block_length(found, block_seconds)
    if requests < ENOUGH_EVENTS or length is None:
        return None
    sums = [
        list(accumulate((getattr(one, name) for one in (*found, *found)), initial=0.0))
        for name in ("requests", "spent")
    ]

    def drawn(starts: Sequence[int]) -> float:
        n, s = (sum(one[at + length] - one[at] for at in starts) for one in sums)
        return s / n if n > 0 else spent / requests

    return _estimate(spent / requests, drawn, len(found), length, seed, draws=draws)


def quantile_of(
    evidence: Evidence, on: Subject, quantile: float, block_seconds: float, seed: int = 0
) -> Estimate | None:
    """Return a quantile of the requests' seconds from traces with its interval; None where too few were traced.

    A quantile needs requests beyond it: five of the expected number at least, as for any count's interval.
    """
    moments = evidence.moments(on.server)
    cells: list[list[float]] = [[] for _ in moments[1:]]
    for request in evidence.calls(on):
        place = bisect_right(moments, request.end_seconds) - 1
        if 0 <= place < len(cells):
            cells[place].append(request.root.seconds)
    everything = sorted(value for cell in cells for value in cell)
    spans = [ObservedInterval(seconds=b - a, requests=0, spent=0) for a, b in pairwise(moments)]
    length = block_length(spans, block_seconds)
    if len(everything) * (1.0 - quantile) < _FEWEST_BEYOND or length is None:
        return None

    def drawn(starts: Sequence[int]) -> float:
        values = [value for at in starts for place in range(at, at + length) for value in cells[place % len(cells)]]
        return _rank(sorted(values), quantile) if values else _rank(everything, quantile)

    return _estimate(_rank(everything, quantile), drawn, len(cells), length, seed, draws=_QUANTILE_DRAWS)


_FEWEST_BEYOND = 5
# Sorting a thousand requests for each draw: a quarter of the draws move the ends of the interval by a few per cent.
_QUANTILE_DRAWS = 250


def block_length(found: Sequence[ObservedInterval], block_seconds: float) -> int | None:
    """Return how many stretches a block holds; None where the window holds fewer than four such blocks.

    A block is at least as long as given, and where the window allows as the cube root of the number of stretches, the
    order that makes the bootstrap's error smallest (Künsch 1989; Hall, Horowitz & Jing, Biometrika 82, 1995).
    """
    whole = sum(one.seconds for one in found)
    if not found or whole <= 0:
        return None
    if block_seconds * FEWEST_BLOCKS > whole:
        return None
    least = min(round(len(found) ** (1 / 3)), len(found) // FEWEST_BLOCKS)
    length = max(ceil(block_seconds / (whole / len(found)) - 1e-9), least, 1)
    return length if len(found) / length >= FEWEST_BLOCKS else None


def _estimate(
    value: float,
    drawn: Callable[[Sequence[int]], float],
    cells: int,
    length: int,
    seed: int,
    *,
    draws: int = DRAWS,
) -> Estimate:
    """Return the value between the 5 % and 95 % quantiles of its draws, widened for the few blocks behind them."""
    random, blocks = Random(seed), max(round(cells / length), FEWEST_BLOCKS)  # noqa: S311 - not for secrets
    found = sorted(drawn([int(random.random() * cells) for _ in range(blocks)]) for _ in range(draws))
    wider = student(blocks - 1) / _NORMAL
    low, high = (value + (_rank(found, at) - value) * wider for at in (LOW, HIGH))
    return Estimate(value=value, low=max(min(low, value), 0.0), high=max(high, value))


_NORMAL = NormalDist().inv_cdf(HIGH)


def student(freedom: int) -> float:
    """Return the 95 % quantile of Student's distribution (expansion 26.7.5 of Abramowitz & Stegun, 1964).

    Draws of few blocks vary less than few blocks do: a percentile interval of B blocks is too narrow by this ratio to
    the normal one.
    """
    z, n = _NORMAL, max(freedom, 1)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / n + second / n**2 + third / n**3


def _rank(ascending: Sequence[float], quantile: float) -> float:
    place = quantile * (len(ascending) - 1)
    low = int(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


def relaxation_seconds(*, service: float, servers: int, busy_share: float) -> float:
    """Return how long a queue remembers where it was: about `service ÷ servers ÷ (1 − √busy share)²`.

    Infinite at and above a busy share of 1. Source: the M/M/1 queue (Cohen, The Single Server Queue, 1982), in this
    form for several servers in heavy traffic (Whitt, "Planning queueing simulations", Management Science 35, 1989).
    """
    if busy_share >= 1.0:
        return float("inf")
    return service / max(servers, 1) / (1.0 - sqrt(max(busy_share, 0.0))) ** 2
