"""What executions take of a device that they share, and how much faster each would be alone on it.

Lanes run side by side, each for its own share of the time. In processor sharing, executions run at full speed until the
sum of their demands passes the capacity, and are slowed by the ratio beyond it; the lanes' independence gives the
distribution of that sum, as in mean value analysis one lane's arrival sees the others' (Reiser and Lavenberg 1980).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt
from statistics import NormalDist

from diagnostics.tuning.simulation.scenario import Model

# Demands are summed on a grid of this part of the capacity: finer than any of them is known.
_GRID = 50
# Lanes alike from which on their number at work is taken for normal.
_MANY = 32
_LIKELY = tuple(NormalDist().inv_cdf((part + 0.5) / 16) for part in range(16))
_BISECTIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInstance:
    """An instance: its model, the share of time in which it executes, and its demand relative to the others'."""

    model: str
    busy: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceDemand:
    """One model's part: what a running execution demands, and its time alone ÷ its time as measured."""

    demand: float
    alone: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedDevice:
    """A device that executions share, and what is known of how much a running lane takes of it.

    Attributes:
        resource: its name in the scenario.
        capacity: in the resource's own amount.
        lanes: the lanes on it as they were measured.
        low: demand per weight where the device is as little used as it may be.
        central: the likely one.
        high: where the device is as much used as it may be.
        assumption: what that rests on.

    """

    resource: str
    capacity: float
    lanes: tuple[SharedInstance, ...]
    low: float
    central: float
    high: float
    assumption: str

    def parts(self, position: float) -> Mapping[str, DeviceDemand]:
        """Return each model's part between the ends: 0 is low, 0.5 central, 1 high; at equal ratios between them."""
        lower, upper = (self.low, self.central) if position < 0.5 else (self.central, self.high)
        weight = 2 * position if position < 0.5 else 2 * position - 1
        scale = lower ** (1 - weight) * upper**weight if lower > 0 else upper * weight
        return shares(self.lanes, scale, self.capacity)


CENTRAL = 0.5


@lru_cache(maxsize=256)
def shares(lanes: tuple[SharedInstance, ...], scale: float, capacity: float) -> Mapping[str, DeviceDemand]:
    """Return each model's part where a running lane demands `scale` × its weight."""
    found = {}
    for index, lane in enumerate(lanes):
        if lane.model not in found:
            others = [*lanes[:index], *lanes[index + 1 :]]
            own = scale * lane.weight
            speed = sum(
                chance * min(capacity / (own + more), 1.0) if own + more > 0 else chance
                for more, chance in _sums(others, scale, capacity)
            )
            found[lane.model] = DeviceDemand(demand=own, alone=speed)
    return found


def used(lanes: Sequence[SharedInstance], scale: float, capacity: float) -> float:
    """Return the share of the capacity that is in use on average."""
    return sum(chance * min(total / capacity, 1.0) for total, chance in _sums(lanes, scale, capacity))


def scale_for(lanes: Sequence[SharedInstance], use: float, capacity: float) -> float:
    """Return the demand per weight at which the lanes use that share of the device; at most what one lane can take."""
    low, high = 0.0, 1.0 / max((lane.weight for lane in lanes), default=1.0)
    if used(lanes, high, capacity) <= use:
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if used(lanes, middle, capacity) < use else (low, middle)
    return (low + high) / 2


def _sums(lanes: Sequence[SharedInstance], scale: float, capacity: float) -> Sequence[tuple[float, float]]:
    """Return (sum of demands, chance) of the lanes that run at an instant."""
    step, chances = capacity / _GRID, {0: 1.0}
    for lane, count in Counter(lanes).items():
        each = scale * lane.weight / step
        for ups in _ups(each, min(max(lane.busy, 0.0), 1.0), count):
            chances = _added(chances, ups)
    return [(at * step, chance) for at, chance in chances.items() if chance > 0]


def _ups(each: float, busy: float, count: int) -> Iterable[Sequence[tuple[float, float]]]:
    """Yield what like lanes add to a sum, with its chances: one after the other, or many of them at once.

    The number of many at work is as good as normal, and is taken at equally likely values: a thousand lanes, one after
    the other, would take minutes.
    """
    if count <= _MANY:
        yield from [((0.0, 1 - busy), (each, busy))] * count
        return
    mean, deviation = count * busy, sqrt(count * busy * (1 - busy))
    running = (min(max(mean + deviation * at, 0.0), count) for at in _LIKELY)
    yield [(each * one, 1 / len(_LIKELY)) for one in running]


def _added(chances: Mapping[int, float], ups: Sequence[tuple[float, float]]) -> dict[int, float]:
    after: dict[int, float] = {}
    for at, chance in chances.items():
        for up, part in ups:
            # Between two points of the grid, so that the mean is exact.
            floor = int(up)
            for more, share in ((floor, floor + 1 - up), (floor + 1, up - floor)):
                if share > 0:
                    after[at + more] = after.get(at + more, 0.0) + chance * part * share
    return after


def alone(model: Model, resource: str, share: DeviceDemand) -> Model:
    """Return a model as it is alone on a resource that it demands."""
    demand = {**model.demand, resource: share.demand}
    if model.engine is None:
        return replace(model, demand=demand, service=model.service.scaled(share.alone))
    engine = replace(
        model.engine,
        prefill_seconds=model.engine.prefill_seconds * share.alone,
        iteration_seconds=model.engine.iteration_seconds * share.alone,
        iteration_seconds_per_request=model.engine.iteration_seconds_per_request * share.alone,
    )
    return replace(model, demand=demand, engine=engine)
