"""How long an execution takes, as a function of its batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from diagnostics.errors import UsageError

# Measured between two executions of one instance with work waiting: 0.12 to 0.16 ms (Triton 2.51).
DISPATCH_GAP = 0.00015
# Triton's batch statistics hold means only; a spread of a tenth per execution is typical of GPU kernels.
_SPREAD = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPoint:
    """Executions of one batch size: how many, and their mean seconds (input + infer + output)."""

    size: int
    executions: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MarginalCost:
    """What one more item in a batch costs, as a share of an execution of one: 1 buys nothing, 0 is free."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTime:
    """Seconds of an execution of `b` items: `base + per_item * b`.

    Attributes:
        base: seconds per execution that do not depend on the batch.
        per_item: seconds per item; `per_item_low` and `per_item_high` are the bounds that the data allow.
        pivot: the batch size whose time is known best; every slope within the bounds goes through its time.
        sizes_seen: batch sizes that the fit rests on, ascending.
        executions: number of executions behind the fit.
        dispatch_gap: seconds an instance stays idle between two executions with work waiting.
        estimated: True when the slope is a range rather than a measurement.

    """

    base: float
    per_item: float
    per_item_low: float
    per_item_high: float
    pivot: float = 1.0
    sizes_seen: tuple[int, ...] = (1,)
    executions: int = 0
    dispatch_gap: float = DISPATCH_GAP
    estimated: bool = False

    def time(self, size: float) -> float:
        """Return the seconds that an execution of `size` items computes."""
        return self.base + self.per_item * size

    def occupancy(self, size: float) -> float:
        """Return the seconds that an execution of `size` items holds its instance."""
        return self.time(size) + self.dispatch_gap

    def with_slope(self, per_item: float) -> ServiceTime:
        """Return the service time of another slope through the best known point."""
        base = max(self.time(self.pivot) - per_item * self.pivot, 0.0)
        return self._of(base, per_item, per_item, per_item)

    def scaled(self, factor: float) -> ServiceTime:
        """Return the service time of executions that take `factor` times as long."""
        slopes = (self.per_item * factor, self.per_item_low * factor, self.per_item_high * factor)
        return self._of(self.base * factor, *slopes)

    def _of(self, base: float, per_item: float, low: float, high: float) -> ServiceTime:
        """Return another time and slope of the same fit; `replace` takes five times as long."""
        return ServiceTime(
            base=base,
            per_item=per_item,
            per_item_low=low,
            per_item_high=high,
            pivot=self.pivot,
            sizes_seen=self.sizes_seen,
            executions=self.executions,
            dispatch_gap=self.dispatch_gap,
            estimated=self.estimated,
        )

    @property
    def marginal_cost(self) -> MarginalCost:
        """Return `per_item / time(1)` with the bounds that the data allow."""
        low, high = self.with_slope(self.per_item_low), self.with_slope(self.per_item_high)
        return MarginalCost(value=_share(self), low=_share(low), high=_share(high))


def constant(seconds: float, size: int = 1) -> ServiceTime:
    """Return the service time of a stage of which one batch size is known: anything from flat to linear."""
    return fit([BatchPoint(size=size, executions=1, seconds=seconds)])


def fit(points: Sequence[BatchPoint], *, dispatch_gap: float = DISPATCH_GAP) -> ServiceTime:
    """Return the affine service time of batch statistics.

    The slope is the weighted median of the slopes between all pairs of sizes (Theil 1950, Sen 1968; weights:
    executions on both sides, times distance), so one cold execution of a rare size does not bend it. Where
    one size was seen, every slope from flat (0) to linear (base 0) is possible: the middle is given and
    `estimated` is True.

    Raises:
        UsageError: no point has an execution and a positive time.

    """
    used = sorted((p for p in points if p.executions > 0 and p.seconds > 0 and p.size > 0), key=lambda p: p.size)
    if not used:
        raise UsageError("no executions to fit a service time to", hint="widen the window until the model ran")
    pivot, known = _center(used)
    linear = known / pivot
    slope, margin = _slope(used, linear), _margin(used)
    if margin is None:
        slope, low, high = linear / 2, 0.0, linear
    else:
        low, high = max(slope - margin, 0.0), min(slope + margin, linear)
    return ServiceTime(
        base=max(known - slope * pivot, 0.0),
        per_item=slope,
        per_item_low=low,
        per_item_high=high,
        pivot=pivot,
        sizes_seen=tuple(p.size for p in used),
        executions=sum(p.executions for p in used),
        dispatch_gap=dispatch_gap,
        estimated=high - low > linear / 2,
    )


def _share(service: ServiceTime) -> float:
    return service.per_item / service.time(1)


def _center(points: Sequence[BatchPoint]) -> tuple[float, float]:
    """Return the size executed most and its seconds."""
    best = max(points, key=lambda p: p.executions)
    return float(best.size), best.seconds


def _slope(points: Sequence[BatchPoint], linear: float) -> float:
    pairs = [
        ((b.seconds - a.seconds) / (b.size - a.size), a.executions * b.executions * (b.size - a.size))
        for i, a in enumerate(points)
        for b in points[i + 1 :]
    ]
    return min(max(_weighted_median(pairs), 0.0), linear) if pairs else 0.0


def _weighted_median(pairs: list[tuple[float, int]]) -> float:
    half, seen = sum(weight for _, weight in pairs) / 2, 0.0
    for value, weight in sorted(pairs):
        seen += weight
        if seen >= half:
            return value
    return pairs[-1][0]


def _margin(points: Sequence[BatchPoint]) -> float | None:
    """Return two standard errors of the slope (weighted least squares), None where one size was seen."""
    total = sum(p.executions for p in points)
    center = sum(p.size * p.executions for p in points) / total
    spread = sum(p.executions * (p.size - center) ** 2 for p in points)
    mean = sum(p.seconds * p.executions for p in points) / total
    return 2 * _SPREAD * mean / sqrt(spread) if spread > 0 else None
