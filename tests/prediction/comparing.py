"""Predictions against measurements: how far off, whether inside the stated interval, whether in the right order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from diagnostics.forecast.performance import Estimate, Performance
from tests.prediction.measured import Measured

# The busiest stage's share up to which errors are judged; above, a 40 s run holds about one relaxation time, and a
# prediction is judged by its interval.
STEADY_BUSY_SHARE = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """What is predicted, and the median relative error that is aimed at where the deployment is steady."""

    name: str
    goal: float
    measured: Callable[[Measured], float]
    predicted: Callable[[Performance], Estimate | None]


QUANTITIES = (
    Quantity(name="mean", goal=0.10, measured=lambda m: m.mean.value, predicted=lambda p: p.mean),
    Quantity(name="p95", goal=0.15, measured=lambda m: m.p95.value, predicted=lambda p: p.p95),
    Quantity(name="throughput", goal=0.03, measured=lambda m: m.throughput, predicted=lambda p: p.throughput),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A measurement with its prediction, None where none was made; `refused` says why.

    Attributes:
        on_card: whether its stages compute on a GPU.
    """

    group: str
    load: str
    measured: Measured
    predicted: Performance | None
    refused: str = ""
    on_card: bool = False

    @property
    def steady(self) -> bool:
        """Whether the measured busiest stage leaves enough time for a window to tell."""
        return self.measured.busy_share <= STEADY_BUSY_SHARE

    def error(self, quantity: Quantity) -> float | None:
        """Return the relative error; None where nothing, or no number, was predicted."""
        estimate = self._estimate(quantity)
        return None if estimate is None else abs(estimate.value / quantity.measured(self.measured) - 1)

    def inside(self, quantity: Quantity) -> bool | None:
        """Return whether the measured number is inside the stated interval; None without one."""
        estimate = self._estimate(quantity)
        if estimate is None:
            return None
        return estimate.low <= quantity.measured(self.measured) <= (estimate.high or float("inf"))

    def _estimate(self, quantity: Quantity) -> Estimate | None:
        return None if self.predicted is None else quantity.predicted(self.predicted)


def median_error(held: Iterable[Held], quantity: Quantity) -> float | None:
    """Return the median over all, of which one without a prediction is as wrong as can be; None of none."""
    errors = [float("inf") if (error := one.error(quantity)) is None else error for one in held]
    return median(errors) if errors else None


def coverage(held: Iterable[Held], quantity: Quantity) -> tuple[int, int]:
    """Return how many measured numbers are inside their interval, and how many intervals there are."""
    known = [inside for one in held if (inside := one.inside(quantity)) is not None]
    return sum(known), len(known)


def order(held: Iterable[Held]) -> tuple[int, int]:
    """Return how many pairs of alternatives are predicted in the right order of their mean, and how many there are.

    Alternatives are points of a group under the same load; a pair counts whose measured intervals are apart.
    """
    right = pairs = 0
    for alternatives in _alternatives(held).values():
        for one, other in combinations(alternatives, 2):
            if not _apart(one.measured, other.measured):
                continue
            pairs += 1
            right += _agree(one, other)
    return right, pairs


def _alternatives(held: Iterable[Held]) -> Mapping[tuple[str, str, str], Sequence[Held]]:
    found: dict[tuple[str, str, str], list[Held]] = {}
    for one in held:
        found.setdefault((one.group, one.load, one.measured.name.rsplit(".", 1)[1]), []).append(one)
    return found


def _apart(one: Measured, other: Measured) -> bool:
    return one.mean.high < other.mean.low or other.mean.high < one.mean.low


def _agree(one: Held, other: Held) -> bool:
    first, second = _mean(one), _mean(other)
    if first is None or second is None:
        return False
    return (first > second) == (one.measured.mean.value > other.measured.mean.value) and first != second


def _mean(held: Held) -> float | None:
    """Return the predicted mean, endless where it is predicted not to keep up; None without a prediction."""
    if held.predicted is None:
        return None
    return float("inf") if held.predicted.mean is None else held.predicted.mean.value
