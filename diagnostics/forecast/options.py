"""What can be changed at each stage, and what each of these changes would cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.service import ServiceTime
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.wire.model_config import ModelConfig

COUNT = "instance_group.count"
BATCHING = "dynamic_batching"
WINDOW = "dynamic_batching.max_queue_delay_microseconds"
# Eight times as many instances as now is beyond what any device with room for them was short of.
_MOST_TIMES = 8
# Above eight instances an eighth of them is the finest step worth weighing.
_FINEST_STEP = 8
# Windows in microseconds, in the steps 1-2-5: finer ones differ by less than a timer's slack.
_WINDOWS = (0, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
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

    """

    change: ConfigChange | None
    instances: int
    settings: int


def options(model: Model, config: ModelConfig | None, *, fewer: bool) -> Sequence[Option]:
    """Return the ways to set a stage, the present one first; only that one where nothing can be said of others.

    Instance counts go up to eight times the present one, and down to one where `fewer`; windows up to the time of a
    full batch, beyond which requests wait longer for company than for the work. An engine and a model whose groups
    have different counts stay as they are.
    """
    now = Option(change=None, instances=model.instances, settings=0)
    group = _group(config)
    if model.engine is not None or config is None or group is None:
        return [now]
    counts = list(_counts(group, fewer))
    found = [now]
    for count in counts:
        for batching in _batching(model, config):
            settings = (*_count_setting(group, count), *batching)
            if settings:
                change = ConfigChange(model=model.name, settings=tuple(settings))
                found.append(Option(change=change, instances=model.instances * count // group, settings=len(settings)))
    return found


def varied(model: Model, config: ModelConfig | None, values: Mapping[str, Sequence[SettingValue]]) -> Sequence[Option]:
    """Return one option for each combination of the given settings' values, by path; nothing else is changed."""
    group = _group(config) or 1
    found = []
    for combination in _product(values):
        wanted = dict(combination)
        count = wanted.get(COUNT)
        instances = model.instances * count // group if isinstance(count, int) else model.instances
        settings = tuple(Setting(path=path, value=value) for path, value in combination)
        change = ConfigChange(model=model.name, settings=settings)
        found.append(Option(change=change, instances=instances, settings=len(settings)))
    return found


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


def _counts(now: int, fewer: bool) -> Iterator[int]:
    if fewer:
        yield from range(1, now)
    yield from range(now, now * _MOST_TIMES + 1, max(now // _FINEST_STEP, 1))


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
        if window:
            yield (Setting(path=WINDOW, value=window),)
        else:
            yield (Setting(path=BATCHING, value=True),) if now is None else (Setting(path=WINDOW, value=0),)
    if now is not None:
        yield (Setting(path=BATCHING, value=None),)


def _windows(service: ServiceTime, largest: int) -> Iterator[int]:
    longest = service.time(largest) * _MICROSECONDS
    return (window for window in _WINDOWS if window <= longest)
