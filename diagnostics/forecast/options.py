"""What can be changed at each stage, and what each of these changes would cost."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from math import floor, inf, log10
from types import MappingProxyType

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue, current
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.wire.model_config import ModelConfig

COUNT = "instance_group.count"
BATCHING = "dynamic_batching"
WINDOW = "dynamic_batching.max_queue_delay_microseconds"
# Eight times as many instances as now is beyond what any device with room for them was short of.
_MOST_TIMES = 8
_TWICE = 2.0
# Steps of a fifth change a queue by about what a forecast of it is good to.
_STEP = 1.2
# Windows as shares of a full batch's time: with the whole of it, waiting for company takes as long as the work.
_WINDOWS = (0.0, 0.1, 0.25, 0.5)
_MICROSECONDS = 1e6


class Minimize(StrEnum):
    """What the smallest of several sufficient changes is smallest in."""

    INSTANCES = "instances"
    GPU_SHARE = "gpu-share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to set a stage.

    Attributes:
        change: what is changed; None leaves the stage as it is.
        instances: instances that it has then, over all devices.
        settings: how many settings differ from now.
        guess: whether what it does rests on batches that were never seen.

    """

    change: ConfigChange | None
    instances: int
    settings: int
    guess: bool = False

    @property
    def removes(self) -> bool:
        """Whether it takes dynamic batching away, with all that is set of it."""
        return self.change is not None and Setting(path=BATCHING, value=None) in self.change.settings


def options(
    model: Model, config: ModelConfig | None, *, fewer: bool, capacities: Mapping[str, float] = MappingProxyType({})
) -> Sequence[Option]:
    """Return the ways to set a stage, the present one first; only that one where nothing can be said of others.

    Instance counts go up to eight times the present one, or to what fills a device that is shared twice over (by name,
    its capacity): more executions at once would only slow each other. They go down to one where `fewer`. Windows go up
    to half the time of a full batch. An engine and a model whose groups have different counts stay as they are.
    """
    now = Option(change=None, instances=model.instances, settings=0)
    group = _group(config)
    if model.engine is not None or config is None or group is None:
        return [now]
    others = (
        _option(model, group, settings, guess=bool(batching) and model.service.estimated)
        for count in _counts(group, fewer, _most(model, capacities) * group / model.instances)
        for batching in _batching(model, config)
        if (settings := (*_count_setting(group, count), *batching))
    )
    return [now, *others]


def varied(model: Model, config: ModelConfig | None, values: Mapping[str, Sequence[SettingValue]]) -> Sequence[Option]:
    """Return one option for each combination of the given settings' values, by path; nothing else is changed.

    A value that is in effect is no change.
    """
    settings = (
        tuple(
            Setting(path=path, value=value)
            for path, value in combination
            if config is None or current(config, path) != value
        )
        for combination in _product(values)
    )
    return [_option(model, _group(config) or 1, one, guess=False) for one in settings]


def _option(model: Model, group: int, settings: tuple[Setting, ...], *, guess: bool) -> Option:
    count = next((one.value for one in settings if one.path == COUNT), None)
    return Option(
        change=ConfigChange(model=model.name, settings=settings) if settings else None,
        instances=model.instances * count // group if isinstance(count, int) else model.instances,
        settings=len(settings),
        guess=guess,
    )


def _product(values: Mapping[str, Sequence[SettingValue]]) -> Iterator[tuple[tuple[str, SettingValue], ...]]:
    if not values:
        yield ()
        return
    path, *rest = values
    for value in values[path]:
        for others in _product({other: values[other] for other in rest}):
            yield ((path, value), *others)


def _group(config: ModelConfig | None) -> int | None:
    """Return the count of the model's groups; None where they differ or none is known."""
    counts = {group.count for group in config.instance_groups if not group.passive} if config else set()
    return counts.pop() if len(counts) == 1 else None


def _most(model: Model, capacities: Mapping[str, float]) -> float:
    """Return the instances beyond which executions only slow each other."""
    rooms = (capacities.get(name, inf) / demand for name, demand in model.demand.items() if demand > 0)
    return _TWICE * min(rooms, default=inf)


def _counts(now: int, fewer: bool, most: float) -> Iterator[int]:
    if fewer:
        yield from range(1, now)
    count = now
    while count == now or count <= min(now * _MOST_TIMES, most):
        yield count
        count = max(count + 1, round(count * _STEP))


def _count_setting(now: int, count: int) -> Iterable[Setting]:
    return () if count == now else (Setting(path=COUNT, value=count),)


def _batching(model: Model, config: ModelConfig) -> Iterator[tuple[Setting, ...]]:
    """Yield ways to batch: as now, then with each window that a full batch's time allows, then not at all."""
    yield ()
    if model.max_batch < 2:
        return
    batching = config.dynamic_batching
    now = None if batching is None else round(batching.max_queue_delay_seconds * _MICROSECONDS)
    for window in _windows(model.service, model.max_batch):
        if window == now:
            continue
        block = now is None and window == 0
        yield (Setting(path=BATCHING, value=True) if block else Setting(path=WINDOW, value=window),)
    if now is not None:
        yield (Setting(path=BATCHING, value=None),)


def _windows(service: ServiceTime, largest: int) -> Sequence[int]:
    whole = service.time(largest) * _MICROSECONDS
    return list(dict.fromkeys(_rounded(share * whole) for share in _WINDOWS))


def _rounded(value: float) -> int:
    """Return the number below it of the series 1, 2, 5, 10, …: what people write into a file; 0 under 1."""
    if value < 1:
        return 0
    power = 10.0 ** floor(log10(value))
    return round(next(step for step in (5, 2, 1) if step * power <= value) * power)


# Below this part of a stage's time, a costlier setting brings nothing that a forecast could show.
_SAME = 0.01
# Shares of a GPU that differ by less are the same: none is measured better than to a hundredth.
_SHARE_DIGITS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionCost:
    """What a combination costs: what is to be least, then what rests on a guess, then how much is touched.

    A batcher that goes takes all its settings with it, and batches at higher loads: another window is the smaller
    change.
    """

    least: float = 0.0
    guesses: int = 0
    models: int = 0
    removed: int = 0
    settings: int = 0

    def __add__(self, other: OptionCost) -> OptionCost:
        return OptionCost(
            least=self.least + other.least,
            guesses=self.guesses + other.guesses,
            models=self.models + other.models,
            removed=self.removed + other.removed,
            settings=self.settings + other.settings,
        )

    @property
    def key(self) -> tuple[float, int, int, int, int]:
        """What costs are compared by."""
        return round(self.least, _SHARE_DIGITS), self.guesses, self.models, self.removed, self.settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One way to set a stage, with the closed forms' mean seconds of a visit; infinite where it cannot keep up."""

    option: Option
    cost: OptionCost
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """One choice per stage."""

    choices: Mapping[str, Choice]

    @property
    def what_if(self) -> WhatIf:
        """The changes of all stages."""
        return WhatIf(changes=tuple(c.option.change for c in self.choices.values() if c.option.change is not None))

    @property
    def instances(self) -> Mapping[str, int]:
        """Instances by stage."""
        return {name: choice.option.instances for name, choice in self.choices.items()}

    @property
    def touched(self) -> frozenset[tuple[str, str]]:
        """The settings that differ from now: model and path."""
        return frozenset((change.model, one.path) for change in self.what_if.changes for one in change.settings)


def stages(fitted: Fitted) -> Sequence[Model]:
    """Return the models that the entry's requests visit, in the order of its steps."""
    entry = next(entry for entry in fitted.scenario.entries if entry.name == fitted.entry)
    models = {model.name: model for model in fitted.scenario.models}
    return [models[name] for name in dict.fromkeys(step.model for step in entry.steps)]


def menu(
    fitted: Fitted, model: Model, ways: Sequence[Option], minimize: Minimize, *, whole: bool
) -> tuple[Sequence[Choice], int]:
    """Return the ways worth weighing, by cost, and how many were looked at.

    Each is faster than all that cost less; where none keeps up, the dearest is returned. Instances are added for as
    long as they bring anything; the first way, the present one, is looked at in any case. Where `whole`, all ways are
    returned.
    """
    found: list[Choice] = []
    fastest = inf
    for _, group in groupby(sorted(ways, key=lambda way: way.instances), key=lambda way: way.instances):
        found += (made := [_choice(fitted, model, option, minimize) for option in group])
        now = min(choice.seconds for choice in made)
        if not whole and now < inf and now >= fastest * (1 - _SAME):
            break
        fastest = min(fastest, now)
    if all(choice.option is not ways[0] for choice in found):
        found.append(_choice(fitted, model, ways[0], minimize))
    ordered = sorted(found, key=lambda choice: (choice.cost.key, choice.seconds))
    return ordered if whole else _worth_weighing(ordered), len(found)


def combinations(menus: Mapping[str, Sequence[Choice]]) -> Iterator[Combination]:
    """Yield a choice per stage in all combinations, by cost.

    Best first over index vectors: each step to a stage's next choice costs more, so the cheapest unseen neighbour of
    what was yielded is next (Lawler 1972).
    """
    start = (0,) * len(menus)
    heap, seen = [(_total(menus, start).key, start)], {start}
    while heap:
        _, at = heapq.heappop(heap)
        yield at_places(menus, at)
        for place, choices in enumerate(menus.values()):
            following = (*at[:place], at[place] + 1, *at[place + 1 :])
            if following[place] < len(choices) and following not in seen:
                seen.add(following)
                heapq.heappush(heap, (_total(menus, following).key, following))


def at_places(menus: Mapping[str, Sequence[Choice]], at: Sequence[int]) -> Combination:
    """Return the combination of the choices at these places of the menus."""
    return Combination(choices={name: menus[name][place] for name, place in zip(menus, at, strict=True)})


def _choice(fitted: Fitted, model: Model, option: Option, minimize: Minimize) -> Choice:
    changes = (option.change,) if option.change is not None else ()
    found = estimate(fitted, WhatIf(changes=changes))
    stage = next(one for one in found.stages if one.model == model.name)
    least = option.instances if minimize is Minimize.INSTANCES else work_share(fitted, model, found, stage)
    touched = 0 if option.change is None else 1
    cost = OptionCost(
        least=least, guesses=option.guess, models=touched, removed=option.removes, settings=option.settings
    )
    keeps_up = stage.stable and stage.queue_mean is not None
    seconds = stage.queue_mean.value + stage.compute_mean.value if keeps_up and stage.queue_mean else inf
    return Choice(option=option, cost=cost, seconds=seconds)


def work_share(
    fitted: Fitted, model: Model, found: Performance, stage: StagePerformance, resource: str = "GPU"
) -> float:
    """Return how much of a shared device a stage's executions take on average; 0 where it was not seen to use it.

    It is the work that they bring: executions per second × their time alone × what one takes of the device meanwhile;
    their time as it was would count what they wait for each other.
    """
    demand = model.demand.get(resource, 0.0)
    if model.engine is not None:
        return stage.busy_share.value * demand
    entry = next(one for one in fitted.scenario.entries if one.name == fitted.entry)
    items = next(one.items for one in fitted.scenario.traffic if one.entry == fitted.entry)
    visits = found.throughput.value * items * sum(step.model == model.name for step in entry.steps)
    size = max(stage.batch_size_mean or 1.0, 1.0)
    return visits / size * model.service.time(size) * demand


def gpu_shares(fitted: Fitted, found: Performance) -> float | None:
    """Return the share of the GPU that the stages' executions take; None where none was seen on one."""
    models = {model.name: model for model in stages(fitted)}
    if not any("GPU" in model.demand for model in models.values()):
        return None
    return sum(work_share(fitted, models[stage.model], found, stage) for stage in found.stages)


def _worth_weighing(choices: Sequence[Choice]) -> Sequence[Choice]:
    kept: list[Choice] = []
    for choice in choices:
        if choice.seconds < (kept[-1].seconds * (1 - _SAME) if kept else inf):
            kept.append(choice)
    return kept or choices[-1:]


def _total(menus: Mapping[str, Sequence[Choice]], at: Sequence[int]) -> OptionCost:
    return sum((menus[name][place].cost for name, place in zip(menus, at, strict=True)), OptionCost())
