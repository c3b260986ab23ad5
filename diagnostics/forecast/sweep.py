"""A setting or the load over several values: what is forecast of each, and where more brings no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.forecast.performance import Estimate, Performance

# A gain below this is not worth an instance: it is half of what a diagnosis calls a typical error of a forecast.
WORTHWHILE_GAIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """One value, as given, and what is forecast of it."""

    value: str
    performance: Performance


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSweep:
    """A series of values of one setting, or of the load.

    Attributes:
        name: what is varied, as in `safety.instance_group.count`, `rate` or `clients`.
        model: the model whose setting it is; None for a load.
        points: in the order in which they were given.
        now: position of the value in effect; None where it is not among them.
        knee: position of the value beyond which more brings no more; None where no value keeps up,
            or a setting's values have no order.

    """

    name: str
    model: str | None
    points: tuple[SweepPoint, ...]
    now: int | None
    knee: int | None


def knee_of_setting(points: Sequence[Performance]) -> int | None:
    """Return the first value after which no later one takes a worthwhile and certain part off the mean.

    Worthwhile is 5 % of the mean; certain is more than the width of the later value's interval, as both sides err by
    what is not known of the deployment, and the value that is moved to is the one that is promised. None where no value
    keeps up.
    """
    for at, one in enumerate(points):
        if _mean(one) is not None and not any(_gains(one, later) for later in points[at + 1 :]):
            return at
    return None


def knee_of_load(points: Sequence[Performance]) -> int | None:
    """Return the load of the greatest power, throughput ÷ mean latency; None where none is surely kept up with.

    Below it the server could do more at little cost; above it requests mostly wait. Source: Kleinrock, "Power and
    deterministic rules of thumb for probabilistic problems in computer communications", ICC 1979. A load that may not
    be kept up with is none to run at.
    """
    powers = {at: _power(one) for at, one in enumerate(points)}
    known = {at: power for at, power in powers.items() if power is not None}
    return max(known, key=lambda at: known[at], default=None)


def _gains(one: Performance, later: Performance) -> bool:
    now, then = _mean(one), _mean(later)
    if now is None or then is None:
        return False
    width = then.high - then.low if then.high is not None else float("inf")
    return now.value - then.value >= max(WORTHWHILE_GAIN * now.value, width)


def _power(one: Performance) -> float | None:
    mean = _mean(one)
    sure = mean is not None and mean.high is not None and mean.value > 0
    return one.throughput.value / mean.value if mean is not None and sure else None


def _mean(one: Performance) -> Estimate | None:
    return one.mean if one.stable else None
