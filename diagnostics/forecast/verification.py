"""Whether a change did what was predicted: confirmed, refuted, or not to be told yet."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import hypot, inf

from diagnostics.forecast.performance import Estimate

# How far a forecast may be off before it is refuted: its usual error on a real Triton up to a busy share of 0.85.
TOLERANCE = {"mean": 0.10, "p95": 0.15}
# A predicted difference below this is called none: half of the usual error, and too little to make a change for.
NO_DIFFERENCE = 0.05
# Latency that moved by less than this did not change for the worse or better (as for a finding of a diagnosis).
UNCHANGED_WITHIN = 0.15
# A week: what takes longer to measure will not stay as it is for that long.
LONGEST_SECONDS = 7 * 86400.0


class Verified(StrEnum):
    """What is said of a prediction."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is said of one statistic.

    Attributes:
        verdict: what became of the prediction.
        reason: why, one sentence without a full stop.
        seconds_needed: how long each window has to be for a decision; None where length does not help, or need not.

    """

    verdict: Verified
    reason: str
    seconds_needed: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceEstimate:
    """The difference of two numbers with its 90 % interval; an end is infinite where there is none."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2

    @property
    def largest(self) -> float:
        """The largest difference, of either sign, that the interval allows."""
        return max(abs(self.low), abs(self.high))


def difference(a: Estimate, b: Estimate) -> DifferenceEstimate:
    """Return `a − b` of independent numbers; the ends' distances add in quadrature."""
    value = a.value - b.value
    above = inf if a.high is None else hypot(a.high - a.value, b.value - b.low)
    below = inf if b.high is None else hypot(a.value - a.low, b.high - b.value)
    return DifferenceEstimate(value=value, low=value - below, high=value + above)


def judge(
    statistic: str, *, after: Estimate, predicted: Estimate, unchanged: Estimate | None, seconds: float
) -> Judgement:
    """Return whether a measurement is what was predicted.

    Args:
        statistic: `mean` or `p95`, for its tolerance.
        after: what was measured after the change.
        predicted: what was predicted of it, at the load that it met.
        unchanged: what the old configuration would do at that load; None where it could not keep up.
        seconds: length of the shorter window.

    It is refuted where measurement and prediction differ by more than chance and the forecasts' usual error; confirmed
    where they do not, and the measurement is not what an unchanged deployment would show, either. Where it could be
    both, more has to be measured.

    """
    if unchanged is not None and abs(predicted.value - unchanged.value) <= NO_DIFFERENCE * unchanged.value:
        return _no_difference(after, unchanged, seconds)
    off = difference(after, predicted)
    tolerance = TOLERANCE[statistic] * predicted.value
    if off.low > tolerance or off.high < -tolerance:
        return Judgement(verdict=Verified.REFUTED, reason=_off(off, predicted))
    if unchanged is None:
        return Judgement(verdict=Verified.CONFIRMED, reason="as predicted, where the old settings could not keep up")
    return _told_apart(after, predicted, unchanged, seconds)


def _told_apart(after: Estimate, predicted: Estimate, unchanged: Estimate, seconds: float) -> Judgement:
    same, gap = difference(after, unchanged), abs(predicted.value - unchanged.value)
    nearer = abs(after.value - predicted.value) < abs(same.value)
    if nearer and (same.low > 0 or same.high < 0):
        return Judgement(verdict=Verified.CONFIRMED, reason="as predicted, and not as the old settings would do")
    width = max(same.half_width, difference(after, predicted).half_width)
    if width < gap / 2:
        reason = "the measurement lies between what was predicted and no effect, closer than forecasts can tell"
        return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason)
    reason = "the measurement fits both what was predicted and no effect"
    return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason, seconds_needed=longer(seconds, width, gap / 2))


def _no_difference(after: Estimate, unchanged: Estimate, seconds: float) -> Judgement:
    found, most = difference(after, unchanged), UNCHANGED_WITHIN * unchanged.value
    if found.largest <= most:
        return Judgement(verdict=Verified.CONFIRMED, reason="no difference was predicted, and none was measured")
    if found.low > most or found.high < -most:
        return Judgement(verdict=Verified.REFUTED, reason="no difference was predicted, and there is one")
    reason = f"no difference was predicted; the measurement allows one of more than {UNCHANGED_WITHIN:.0%}".replace(
        "%", " %"
    )
    room = most - abs(found.value)
    needed = longer(seconds, found.half_width, room) if room > 0 else None
    return Judgement(verdict=Verified.INCONCLUSIVE, reason=reason, seconds_needed=needed)


def longer(seconds: float, half_width: float, wanted: float) -> float | None:
    """Return the length of a window whose interval has the half width that is wanted.

    An interval's width falls with the square root of the window's length. None beyond a week, and where the present
    width is not bounded.
    """
    if not half_width < inf or wanted <= 0:
        return None
    needed = seconds * max(half_width / wanted, 1.0) ** 2
    return needed if needed <= LONGEST_SECONDS else None


def _off(off: DifferenceEstimate, predicted: Estimate) -> str:
    share = abs(off.value) / predicted.value if predicted.value > 0 else inf
    word = "above" if off.value > 0 else "below"
    return f"{share * 100:.0f} % {word} what was predicted, more than chance and a forecast's usual error"


def overall(judgements: list[Judgement]) -> Judgement:
    """Return what is said of all statistics together: a refuted one refutes; else the first one, the mean, decides."""
    refuted = next((one for one in judgements if one.verdict is Verified.REFUTED), None)
    return refuted or judgements[0]
