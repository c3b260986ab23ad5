"""What chance alone does to counts: intervals of a share, and of how many events are too many for luck."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from diagnostics.slo.slo import Slo

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


DAY, HOUR = 86400.0, 3600.0
_WORKBOOK_PERIOD = 30 * DAY
# A short window of fewer rounds of reads than a handful says nothing.
_SHORTEST = 30.0
# Below a week the windows shrink with the period: three days of one cannot show that it is nearly spent.
_SHRINK_BELOW = 7 * DAY
# One alert of a service that just keeps its promise, in so many periods.
_PERIODS_PER_FALSE_ALERT = 10
# A burn that spends the budget in about the period is worth a ticket, a slower one is not.
_SLOWEST = 0.9
# Three bad events may always be chance, however few requests there are.
_FEWEST, _MOST = 3, 100
_PAIRS = (("page", 300.0, HOUR, 0.02), ("page", 1800.0, 6 * HOUR, 0.05))
_TICKETS = (("ticket", 2 * HOUR, DAY, 0.10), ("ticket", 6 * HOUR, 3 * DAY, 0.10))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two windows that must both burn at `factor` times the allowed rate.

    Attributes:
        severity: `page` or `ticket`.
        short, long: seconds.
        factor: burn rate from which on it is an alert.
        fewest: bad events in the long window below which nobody is notified.

    """

    severity: str
    short: float
    long: float
    factor: float
    fewest: int


def pairs(period: float) -> tuple[Pair, ...]:
    """Return the pairs of windows for a period of so many seconds, the fastest burn first.

    From a week on windows stay and factors follow the period, as a window must spend the same part of the budget; a
    pair whose factor falls below 0.9 is left out, as such a burn leaves some budget. Shorter periods shrink windows.
    """
    found: list[Pair] = []
    for severity, short, long, spent in (*_PAIRS, *_TICKETS):
        usual = spent * _WORKBOOK_PERIOD / long
        shrunk = min(period / _WORKBOOK_PERIOD, 1.0) if period < _SHRINK_BELOW else 1.0
        wide, narrow = max(long * shrunk, 2 * _SHORTEST), max(short * shrunk, _SHORTEST)
        factor = usual if shrunk < 1 else spent * period / wide
        if factor >= _SLOWEST:
            fewest = fewest_bad_events(factor, period / wide) or max((one.fewest for one in found), default=_FEWEST)
            found.append(Pair(severity=severity, short=narrow, long=wide, factor=factor, fewest=fewest))
    return tuple(found)


def fewest_bad_events(factor: float, windows: float) -> int | None:
    """Return how many bad events in a window are more than luck; None where no number is, as the factor is near 1.

    At the traffic at which k bad events are a burn of `factor`, a service that just keeps its promise has k ÷ factor of
    them on average. The least k is returned for which chance brings k less often than once in ten periods: with less
    traffic k events are rarer still, with more the burn rate itself asks for more than k.

    Args:
        factor: the burn rate that alerts.
        windows: windows in a period.

    """
    most_often = 1 / (_PERIODS_PER_FALSE_ALERT * max(windows, 1.0))
    return next((k for k in range(_FEWEST, _MOST) if at_least(k, k / factor) <= most_often), None)


def burn_rate(bad: float, total: float, allowed: float) -> float | None:
    """Return how many times faster than allowed the budget burns; None where there were no events."""
    return bad / total / allowed if total > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEvents:
    """Events of one window, of which `seconds` are known; `low` and `high` hold the bad ones."""

    seconds: float
    total: float
    bad: float
    low: float
    high: float


def firing(pair: Pair, long: WindowEvents, short: WindowEvents, allowed: float) -> bool:
    """Return whether a pair is an alert: both windows burn fast enough, and more is bad than luck explains."""
    rates = [burn_rate(one.bad, one.total, allowed) or 0.0 for one in (long, short)]
    return long.bad >= pair.fewest and min(rates) >= pair.factor


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetForecast:
    """When the budget will be spent, at the pace of the newest `over` seconds; seconds from now.

    `soonest` and `latest` hold the time at about 95 %; `expected` and `latest` are None for never.
    """

    expected: float | None
    soonest: float | None
    latest: float | None
    over: float


def forecast(left: float, newest: Sequence[WindowEvents]) -> BudgetForecast | None:
    """Return the forecast; None where nothing was counted.

    Args:
        left: bad events that the budget still allows; what falls out of the period is left aside, so that it is never
            too late.
        newest: windows up to now, the shortest first: the first with enough bad events to show a pace is taken, else
            the longest.

    """
    counted = [one for one in newest if one.seconds > 0 and one.total > 0]
    if not counted:
        return None
    reported = next((one for one in counted if one.bad >= _FEWEST), counted[-1])
    low, _ = count_interval(min(reported.bad, reported.low))
    _, high = count_interval(max(reported.bad, reported.high))

    def until(events: float) -> float | None:
        pace = events / reported.seconds
        return max(left, 0.0) / pace if pace > 0 and math.isfinite(left / pace) else None

    return BudgetForecast(expected=until(reported.bad), soonest=until(high), latest=until(low), over=reported.seconds)


# `increase` wants two samples, and a scrape may be late or fail ("What range should I use with rate()?", B. Brazil).
_SCRAPES = 4
# Prometheus' own default, seconds.
_USUAL_SCRAPE = 60.0


def cautions(slo: Slo) -> Iterator[str]:
    """Yield what whoever loads the rules of an objective must know; nothing for most."""
    reported = [pair for pair in pairs(slo.period) if pair.severity not in slo.quiet]
    most = 1 / slo.allowed
    never = " and ".join(f"{pair.factor:.3g}" for pair in reported if pair.factor > most)
    if never:
        yield (
            f"{slo.name}: when every event is bad its budget burns {most:.3g} times as fast as allowed: "
            f"its alerts at {never} times cannot fire"
        )
    shortest = min((pair.short for pair in reported), default=_SCRAPES * _USUAL_SCRAPE)
    if shortest < _SCRAPES * _USUAL_SCRAPE:
        yield (
            f"{slo.name}: its shortest window is {shortest:g} s: alerts stay silent where what it counts is scraped "
            f"less often than every {shortest / _SCRAPES:.0f} s"
        )
