"""What can be changed at each stage, and what each of these changes would cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import floor, inf, log10
from types import MappingProxyType

from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.current import current
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
