"""The rate limiter: how many instances the resources of their groups let execute at once, and how used these are.

It counts only where the server runs it (`--rate-limit=execution_count`), which its log says and nothing else. While
the instance that is first in line waits for a resource, no other instance of any model begins (core, `rate_limiter.cc`,
AttemptAllocation): requests then wait anywhere, for models that need no resource, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil

from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.settings import CONFIGURATION, INSTANCES
from diagnostics.signals.signal import Signal
from diagnostics.signals.subject import Scope
from diagnostics.units import Unit
from diagnostics.window.view import ModelView
from diagnostics.wire.model_config import InstanceGroup, LimiterResource, ModelConfig

# Of instances that never pause the time of executions was measured as up to 1.004 of the span.
ROUNDING = 1.02
_FIX = "keep the server's log: its table of options says whether the rate limiter is on"


def available(configs: Mapping[str, ModelConfig]) -> Mapping[str, int]:
    """Return how much of each resource there is, per device, as long as nobody says: the largest need of any instance.

    Source: core, `rate_limiter.cc`, ResourceManager::UpdateResourceLimits. `--rate-limit-resource` may give more.
    """
    most: dict[str, int] = {}
    for config in configs.values():
        for resource in _needs(config):
            most[resource.name] = max(most.get(resource.name, 0), resource.count)
    return most


def _needs(config: ModelConfig) -> Iterator[LimiterResource]:
    return (one for group in config.instance_groups if not group.passive for one in group.resources)


def _limit(view: ModelView) -> Reading:
    instances = INSTANCES.read(view)
    if view.config is None or instances.value is None:
        return instances
    if view.server.rate_limited is False or not any(group.resources for group in view.groups):
        return Reading.of(instances.value, Unit.COUNT, CONFIGURATION)
    most, times = available(view.server.configs), _times_as_much(view, _default_use(view))
    allowed = min(float(sum(_allowed(group, most) for group in view.groups)) * times, instances.value)
    unsure = view.server.rate_limited is None
    return Reading.of(
        allowed, Unit.COUNT, CONFIGURATION, high=instances.value if unsure else None, estimated=unsure or times > 1
    )


def _allowed(group: InstanceGroup, most: Mapping[str, int]) -> int:
    devices = max(len(group.gpus), 1)
    each = [most[one.name] // one.count * (1 if one.everywhere else devices) for one in group.resources]
    return min([group.count * devices, *each])


def _times_as_much(view: ModelView, use: Reading) -> int:
    """Return how many times the default there is of a resource, at the least: where the limiter is on, what is used.

    `--rate-limit-resource` gives it, and no endpoint tells. Without a word that the limiter is on, more executions at
    once than it would allow by default show that it is off.
    """
    return max(ceil((use.value or 0.0) / ROUNDING), 1) if view.server.rate_limited else 1


def _use(view: ModelView) -> Reading:
    use = _default_use(view)
    return use if use.value is None else use / Reading.of(float(_times_as_much(view, use)), Unit.COUNT, use.source)


def _default_use(view: ModelView) -> Reading:
    """Σ over the models that need a resource of their executions at once × need ÷ what there is of it; the fullest."""
    if view.config is None:
        return Reading.unknown(Missing.NOT_EXPORTED, Unit.RATIO, CONFIGURATION)
    own = {one.name for one in _needs(view.config)}
    if view.server.rate_limited is False or not own:
        return Reading.of(0.0, Unit.RATIO, CONFIGURATION)
    used = [_used(view, name, count) for name, count in available(view.server.configs).items() if name in own]
    known = [one for one in used if one.value is not None]
    return max(known, key=lambda one: one.value or 0.0) if known else used[0]


def _used(view: ModelView, name: str, count: int) -> Reading:
    total = Reading.of(0.0, Unit.RATIO, "")
    for model, config in view.server.configs.items():
        needs = [one for one in _needs(config) if one.name == name]
        if not needs:
            continue
        other = view.beside(model, view.version if model == view.model else None)
        at_once = INSTANCE_BUSY_SHARE.read(other) * INSTANCES.read(other)
        if at_once.value is None and model != view.model:
            continue
        devices = 1 if needs[0].everywhere else max(len(config.instance_groups[0].gpus), 1)
        share = Reading.of(min(one.count for one in needs) / (count * devices), Unit.RATIO, CONFIGURATION)
        total = total + at_once.with_unit(Unit.RATIO) * share
    return total


RATE_LIMIT = Signal(
    name="rate_limited_instances",
    unit=Unit.COUNT,
    scope=Scope.MODEL,
    doc="Instances that the rate limiter lets execute at once, by the resources that they need; all where none limits.",
    readers=(_limit,),
    fix=_FIX,
)
RATE_LIMIT_USE = Signal(
    name="rate_limiter_use",
    unit=Unit.RATIO,
    scope=Scope.MODEL,
    doc="Share of the time for which executions hold all that there is of a rate limiter's resource that the model "
    "needs; 0 where it needs none, or the limiter is off.",
    readers=(_use,),
)
