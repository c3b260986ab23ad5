"""What no two forecasts of one deployment may say of each other, whatever was measured.

Each is a law of queues, held against closed forms, which have no luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import inf

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.options import stages
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue, current
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model

# Formulas of one queue meet where another takes over: a twentieth is less than they are good to.
_SEAM = 0.05
_FACTORS = (0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 10.0)
_COUNT = "instance_group.count"
_PATHS = (
    _COUNT,
    "dynamic_batching.max_queue_delay_microseconds",
    "dynamic_batching.preferred_batch_size",
    "dynamic_batching.preserve_ordering",
    "dynamic_batching.default_queue_policy.max_queue_size",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.default_queue_policy.timeout_action",
)


def contradictions(fitted: Fitted) -> Iterator[str]:
    """Yield what forecasts of this deployment contradict each other in, a line each."""
    yield from _in_load(fitted)
    yield from _in_instances(fitted)


def effects_of_nothing(fitted: Fitted) -> Iterator[str]:
    """Yield where a setting's present value, a rate of 1x, or doubling and halving changes a deployment as recorded."""
    if changed(fitted, WhatIf()) != fitted or changed(fitted, WhatIf(rate_factor=1.0)) != fitted:
        yield "no change changes something"
    for model in stages(fitted):
        config = fitted.configs.get(model.name)
        for path in _PATHS if config and not model.engine else ():
            value = current(config, path) if config else None
            if value is None or (path != _COUNT and model.batcher is None):
                continue
            if _set(fitted, model, {path: value}).scenario != fitted.scenario:
                yield f"{model.name} {path}={value} is in effect, and changes something"
    yield from _there_and_back(fitted)


def _there_and_back(fitted: Fitted) -> Iterator[str]:
    """Yield where what is doubled and then halved is not what it was."""
    if not _loops(fitted):
        twice = changed(changed(fitted, WhatIf(rate_factor=2.0)), WhatIf(rate_factor=0.5))
        if twice.scenario != fitted.scenario:
            yield "a load doubled and halved is another"
    for model in stages(fitted):
        count = _count(fitted, model)
        if count is None:
            continue
        back = _set(_set(fitted, model, {_COUNT: 2 * count}), model, {_COUNT: count})
        if back.scenario != fitted.scenario:
            yield f"{model.name} with its instances doubled and halved is another"


def _in_load(fitted: Fitted) -> Iterator[str]:
    """Yield where more load is answered less of it, or sooner, or is kept up with only when it is more."""
    found = list(_loaded(fitted))
    for (less, few), (more, many) in pairwise(found):
        what = f"load {less:g} and {more:g}"
        if many.throughput.value < few.throughput.value * (1 - _SEAM):
            yield f"{what}: answers {few.throughput.value:g}/s and {many.throughput.value:g}/s"
        if many.stable and not few.stable:
            yield f"{what}: keeps up with more and not with less"
        if not _fills(fitted) and _seconds(many) < _seconds(few) * (1 - _SEAM):
            yield f"{what}: takes {_seconds(few):g} s and {_seconds(many):g} s"


def _loaded(fitted: Fitted) -> Iterator[tuple[float, Performance]]:
    loops = _loops(fitted)
    for factor in _FACTORS:
        if not loops:
            yield factor, estimate(fitted, WhatIf(rate_factor=factor))
        elif fitted.entry in {one.entry for one in loops}:
            now = next(one.clients for one in loops if one.entry == fitted.entry)
            yield factor, estimate(fitted, WhatIf(clients=max(round(now * factor), 1)))


def _in_instances(fitted: Fitted) -> Iterator[str]:
    """Yield where twice the instances of a stage that shares nothing answer later, or less.

    More of one stage let more through to those behind it: only the whole is compared where nothing is turned away.
    """
    before = estimate(fitted)
    for model in stages(fitted):
        count = _count(fitted, model)
        if count is None or any(one.demand for one in fitted.scenario.models):
            continue
        after = estimate(_set(fitted, model, {_COUNT: 2 * count}))
        if after.throughput.value < before.throughput.value * (1 - _SEAM):
            yield f"{model.name} twice: {before.throughput.value:g}/s becomes {after.throughput.value:g}/s"
        if not before.rejected and _seconds(after) > _seconds(before) * (1 + _SEAM):
            yield f"{model.name} twice: {_seconds(before):g} s becomes {_seconds(after):g} s"


def _fills(fitted: Fitted) -> bool:
    """Say whether more load may shorten a wait: a batch that is full earlier goes before its window ends."""
    return any(model.batcher is not None and model.batcher.delay_seconds > 0 for model in fitted.scenario.models)


def _count(fitted: Fitted, model: Model) -> int | None:
    """Return the instances on each device; None of an engine, or where groups differ."""
    config = fitted.configs.get(model.name)
    value = current(config, _COUNT) if config and not model.engine else None
    return value if isinstance(value, int) else None


def _set(fitted: Fitted, model: Model, values: dict[str, SettingValue]) -> Fitted:
    settings = tuple(Setting(path=path, value=value) for path, value in values.items())
    return changed(fitted, WhatIf(changes=(ConfigChange(model=model.name, settings=settings),)))


def _seconds(one: Performance) -> float:
    return inf if one.mean is None else one.mean.value


def _loops(fitted: Fitted) -> Sequence[ClosedLoop]:
    return [one for one in fitted.scenario.traffic if isinstance(one, ClosedLoop)]
