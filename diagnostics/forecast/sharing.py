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

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.device import DEVICE_HEADROOM, HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, SERVER_CORES, SERVER_CPU_SHARE
from diagnostics.signals.signal import Reading, Subject
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
        devices: how many devices have a part of the capacity each; an execution is on one of them.

    """

    resource: str
    capacity: float
    lanes: tuple[SharedInstance, ...]
    low: float
    central: float
    high: float
    assumption: str
    devices: int = 1

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


GPU, PROCESSORS = "GPU", "processors"
# Under this share of the processors in use, a doubled load would still leave each execution one of its own.
_USED_ENOUGH = 0.3
# A card with less left than this is full: its counters are means of samples that never reach 1.
_NOTHING_LEFT = 0.03


def sharing_of(
    evidence: Evidence,
    server: str,
    models: Mapping[str, Model],
    at_work: Mapping[str, float],
    own: Mapping[str, float],
) -> tuple[SharedDevice, ...]:
    """Return what the models share; nothing where no device was measured, or it has far more than they take.

    Args:
        evidence: the window.
        server: which server.
        models: the fitted models by name.
        at_work: of engines, the share of time in which they iterate.
        own: of models that call others, the share of their executions in which they execute themselves.

    """
    busy = {name: _busy(evidence, server, name) * own.get(name, 1.0) for name in models if name not in at_work}
    on_gpu = [m for name, m in models.items() if evidence.read(ON_GPU, Subject(server=server, model=name)).value]
    groups = _groups({model.name: _cards(evidence, server, model.name) for model in on_gpu})
    each = (
        _gpu(evidence, server, [models[name] for name in names], cards, at_work, busy, alone=len(groups) == 1)
        for names, cards in groups
    )
    found = (*each, _processors(evidence, server, models, at_work, busy, own))
    return tuple(one for one in found if one is not None)


def _cards(evidence: Evidence, server: str, model: str) -> frozenset[int]:
    """Return the numbers of the cards that a model's instance groups list; none where they list none."""
    config = evidence.config(Subject(server=server, model=model))
    groups = config.instance_groups if config is not None else ()
    return frozenset(card for group in groups if not group.passive for card in group.gpus)


def _groups(cards: Mapping[str, frozenset[int]]) -> list[tuple[list[str], frozenset[int]]]:
    """Return the models that share cards, with those cards; one that lists none may be on any."""
    if not all(cards.values()):
        return [(list(cards), frozenset())]
    groups: list[tuple[list[str], frozenset[int]]] = []
    for name, own in cards.items():
        joined = [group for group in groups if group[1] & own]
        groups = [group for group in groups if group not in joined]
        names = [one for group in joined for one in group[0]]
        groups.append(([*names, name], own.union(*(group[1] for group in joined))))
    return groups


def _busy(evidence: Evidence, server: str, model: str) -> float:
    return min(evidence.read(INSTANCE_BUSY_SHARE, Subject(server=server, model=model)).value or 0.0, 1.0)


def _lanes(
    models: Sequence[Model], busy: Mapping[str, float], at_work: Mapping[str, float], weights: Mapping[str, float]
) -> list[SharedInstance]:
    lanes = []
    for model in models:
        name = model.name
        count, share = (1, at_work[name]) if name in at_work else (model.instances, busy.get(name, 0.0))
        lanes += [SharedInstance(model=name, busy=share, weight=weights.get(name, 1.0))] * count
    return lanes


def _gpu(
    evidence: Evidence,
    server: str,
    on_gpu: Sequence[Model],
    cards: frozenset[int],
    at_work: Mapping[str, float],
    busy: Mapping[str, float],
    *,
    alone: bool,
) -> SharedDevice | None:
    """Return the GPU as its measured use shows it: each lane that runs takes the same part of it.

    Of several cards, each has a part of the lanes. An engine may be on all of its cards at once: they count as one.

    Which counter is the ceiling depends on the backend: the share of time in which any kernel runs where processes
    take turns, the fullest of SM, tensor, DRAM and power where streams overlap.
    """
    rooms = [evidence.read(DEVICE_HEADROOM, Subject(server=server, model=model.name)) for model in on_gpu]
    known = [room for room in rooms if room.value is not None]
    if not known:
        return None
    room = known[0]
    lanes = _lanes(on_gpu, busy, at_work, {})
    devices = 1 if any(model.name in at_work for model in on_gpu) else max(len(cards), 1)
    low, central, high = _scales(lanes, room, devices)
    return SharedDevice(
        resource=GPU if alone else f"{GPU} {', '.join(map(str, sorted(cards)))}",
        capacity=float(devices),
        devices=devices,
        lanes=tuple(lanes),
        low=low,
        central=central,
        high=high,
        assumption="executions share the GPU by its measured use; a power cap or other programs would slow them "
        "further",
    )


def _scales(lanes: Sequence[SharedInstance], room: Reading, devices: int) -> tuple[float, float, float]:
    """Return what a running lane takes of the card: at the least, likely, and at the most.

    A card that is full says only how little each lane takes at least: it may be full of fewer as well. Elsewhere the
    time in which any kernel ran counts the pauses between the short kernels of several processes as used, and power
    and the units count only what kernels keep busy: the likely part is between both, at equal ratios.
    """
    left = [1.0 if one is None else one for one in (room.high, room.value, room.low)]
    low, central, high = (scale_for(lanes, 1 - one, float(devices)) for one in left)
    if left[2] <= _NOTHING_LEFT:
        high = 1.0
    if left[1] <= _NOTHING_LEFT:
        return low, sqrt(central * high), high
    return low, sqrt(low * central), high


def _processors(
    evidence: Evidence,
    server: str,
    models: Mapping[str, Model],
    at_work: Mapping[str, float],
    lanes_busy: Mapping[str, float],
    parts: Mapping[str, float],
) -> SharedDevice | None:
    """Return the server's processors, less what others take of them; each lane takes what its processes used.

    An engine takes it for as long as it iterates: the executions in its row may only hand requests over.
    """
    on = Subject(server=server)
    cores, busy, own = (evidence.read(signal, on).value for signal in (SERVER_CORES, HOST_CPU_BUSY, SERVER_CPU_SHARE))
    weights = {
        name: min(share / max(parts[name], share), 1.0) if name in parts else share
        for name in models
        if (share := evidence.read(CPU_PER_LANE, Subject(server=server, model=name)).value) is not None
    }
    if not cores or busy is None or own is None or busy < _USED_ENOUGH or not weights:
        return None
    for name in weights.keys() & {name for name, share in at_work.items() if share > 0}:
        weights[name] *= _busy(evidence, server, name) * models[name].instances / at_work[name]
    capacity = max(cores * (1 - max(busy - own, 0.0)), 1.0)
    lanes = _lanes([models[name] for name in weights], lanes_busy, at_work, weights)
    processors = "1 processor" if capacity == 1 else f"{capacity:.3g} processors"
    return SharedDevice(
        resource=PROCESSORS,
        capacity=capacity,
        lanes=tuple(lanes),
        low=1.0,
        central=1.0,
        high=1.0,
        assumption=f"executions share {processors}, each taking what the model's processes used",
    )
