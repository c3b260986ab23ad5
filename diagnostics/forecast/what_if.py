"""A change of settings or of load, applied to a fitted deployment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf

from diagnostics.errors import UsageError
from diagnostics.evidence.capacity import DEVICE_FULL, SIDE_BY_SIDE
from diagnostics.forecast.engines import MEASURE, with_engine, with_parameter
from diagnostics.forecast.fitted import Fitted, Unpredictable, nested_calls
from diagnostics.forecast.members import is_racing, missed
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EntryGraph,
    Model,
    OpenLoop,
    QueueDiscipline,
    Scenario,
    TimeoutAction,
)
from diagnostics.units import Unit

Traffic = OpenLoop | ClosedLoop
_MICROSECOND = 1e-6
_POLICY = "dynamic_batching.default_queue_policy"


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What is to be changed.

    Attributes:
        changes: settings, one per model.
        rate_factor: how many times as many requests come, to every entry whose clients do not wait for answers.
        clients: clients of the forecast entry's closed loop; None for as many as now.
        traffic: who calls which entry how, in place of what was fitted for these entries; None to keep it.
        prompt_factor, answer_factor: of an engine, how many times as many tokens prompts and answers have.

    """

    changes: tuple[ConfigChange, ...] = ()
    rate_factor: float = 1.0
    clients: int | None = None
    traffic: tuple[Traffic, ...] | None = None
    prompt_factor: float = 1.0
    answer_factor: float = 1.0


def changed(fitted: Fitted, what_if: WhatIf) -> Fitted:
    """Return the deployment with the change made; `measured` stays what was measured without it.

    Raises:
        UsageError: a changed model is none of the deployment's, or clients are given of an open loop.
        Unpredictable: the model does not hold what a setting does.

    """
    for change in what_if.changes:
        fitted = _with(fitted, change)
    return _loaded(fitted, what_if)


def _loaded(fitted: Fitted, what_if: WhatIf) -> Fitted:
    _check_nested(fitted, what_if)
    scenario, doubt, given = fitted.scenario, fitted.doubt, what_if.traffic or ()
    if given:
        named = {one.entry for one in given}
        kept = tuple(one for one in scenario.traffic if one.entry not in named)
        scenario = replace(scenario, traffic=(*kept, *given))
        arrivals = {name: scv for name, scv in doubt.arrivals.items() if name not in named}
        doubt = replace(doubt, arrivals=arrivals, replayed=doubt.replayed - named)
    if what_if.clients is not None:
        scenario = replace(
            scenario, traffic=tuple(_clients(one, fitted.entry, what_if.clients) for one in scenario.traffic)
        )
    if what_if.rate_factor != 1.0:
        _check_rate(scenario, fitted.entry, what_if.rate_factor)
        fitted = replace(fitted, assumptions=(*fitted.assumptions, *_unscaled(scenario)))
        scenario = replace(scenario, traffic=tuple(_scaled(one, what_if.rate_factor) for one in scenario.traffic))
    return replace(fitted, scenario=scenario, doubt=doubt)


def _check_nested(fitted: Fitted, what_if: WhatIf) -> None:
    """Refuse more load where models are called from inside others: these hold their instances for longer then."""
    now = next((one.clients for one in fitted.scenario.traffic if isinstance(one, ClosedLoop)), 0)
    more = what_if.rate_factor > 1.0 or bool(what_if.traffic) or (what_if.clients or 0) > now
    if fitted.nested and more:
        model, stated = next(iter(fitted.nested.items()))
        raise nested_calls(stated, model)


def _clients(traffic: Traffic, entry: str, clients: int) -> Traffic:
    if traffic.entry != entry:
        return traffic
    if isinstance(traffic, OpenLoop):
        raise UsageError(
            "requests come whatever the server does: there is no number of clients to change",
            where=entry,
            hint="change the rate",
        )
    return replace(traffic, clients=clients)


def _check_rate(scenario: Scenario, entry: str, factor: float) -> None:
    if any(isinstance(one, ClosedLoop) and one.entry == entry for one in scenario.traffic):
        raise UsageError(
            "its clients wait for their answers: their rate follows from the server",
            where=entry,
            hint="change the number of clients",
        )
    if not 0 < factor < inf:
        raise UsageError("a rate must be above 0", where=entry, hint="give a factor or requests per second")


def _unscaled(scenario: Scenario) -> Iterator[str]:
    for one in scenario.traffic:
        if isinstance(one, ClosedLoop):
            yield f"{one.entry} keeps its {one.clients} clients, which wait for their answers, at any rate elsewhere"


def _scaled(traffic: Traffic, factor: float) -> Traffic:
    if isinstance(traffic, ClosedLoop):
        return traffic
    times = None if traffic.times is None else tuple(at / factor for at in traffic.times)
    return replace(traffic, rate=traffic.rate * factor, times=times)


def _with(fitted: Fitted, change: ConfigChange) -> Fitted:
    models = {model.name: model for model in fitted.scenario.models}
    if change.model not in models:
        known = ", ".join(sorted(models))
        raise UsageError("no such model behind this entry", where=change.model, hint=f"its models are {known}")
    if change.model in fitted.nested:
        raise nested_calls(fitted.nested[change.model], change.model)
    model, stated = models[change.model], list[str]()
    # Blocks first: a window belongs to a batcher that the same change may add.
    for setting in sorted(change.settings, key=lambda one: one.path.count(".")):
        model, more = _apply(fitted, model, setting)
        stated += more
    _check_preferred(model, change)
    _check_batches(fitted, model)
    models[model.name] = _fitting(model)
    scenario: Scenario = replace(fitted.scenario, models=tuple(models.values()))
    return replace(fitted, scenario=scenario, assumptions=(*fitted.assumptions, *stated))


def _check_preferred(model: Model, change: ConfigChange) -> None:
    """Refuse preferred sizes that Triton would refuse: "dynamic batching preferred size must be <= max batch size"."""
    for setting in change.settings:
        requested = setting.value if setting.path.endswith(".preferred_batch_size") else None
        if isinstance(requested, tuple) and requested and max(requested) > model.max_batch:
            raise UsageError(
                f"Triton loads no preferred_batch_size {max(requested)} above max_batch_size {model.max_batch}",
                where=model.name,
                hint=f"give sizes up to {model.max_batch}, or a larger max_batch_size, too",
            )


def _check_batches(fitted: Fitted, model: Model) -> None:
    """Refuse batches of a model that calls others: it may call once for each request, or once for all of them."""
    if model.batcher is not None and model.max_batch > 1 and (called := fitted.scenario.calls.get(model.name)):
        raise Unpredictable(
            f"it calls {' and '.join(dict.fromkeys(called))} from inside its executions; how often an execution of "
            "several requests does is not known",
            where=model.name,
            hint=MEASURE,
        )


def _fitting(model: Model) -> Model:
    """Return a model without preferred sizes that its batches cannot reach."""
    if model.batcher is None:
        return model
    preferred = tuple(size for size in model.batcher.preferred if size <= model.max_batch)
    return replace(model, batcher=replace(model.batcher, preferred=preferred))


def _apply(fitted: Fitted, model: Model, setting: Setting) -> tuple[Model, list[str]]:
    """Return the model with one setting, and what to say of it."""
    path, value = setting.path, setting.value
    if path == "instance_group.count":
        return _instances(fitted, model, _whole(value))
    if path == "max_batch_size" and model.engine is None:
        return replace(model, max_batch=max(_whole(value), 1)), _larger(model, _whole(value))
    if path == "max_batch_size":
        _check_slots(fitted, model, _whole(value))
    if path in ("max_batch_size", "engine.max_batch_size"):
        return with_engine(model, path, lambda engine: replace(engine, slots=max(_whole(value), 1)))
    if path.startswith("engine."):
        raise Unpredictable(f"what {path} does to its iterations was not measured", where=model.name, hint=MEASURE)
    if path.startswith("parameters."):
        return with_parameter(model, fitted.configs.get(model.name), path.partition(".")[2], value)
    if path.startswith(_POLICY) and model.engine is not None:
        raise Unpredictable(
            "what a queue policy turns away before an engine is not known", where=model.name, hint=MEASURE
        )
    if path == "dynamic_batching" or path in _BATCHING or path == _POLICY or path.startswith(f"{_POLICY}."):
        made = _batched(model, path, value)
        raced = [missed(model.name)] if is_racing(made) and not is_racing(model) else []
        return made, [*_larger(model, model.max_batch), *raced]
    if path == "response_cache.enable":
        raise Unpredictable("how many requests repeat is not known", where=model.name, hint=MEASURE)
    return model, [f"{path} of {model.name} does nothing to requests once it has taken effect"]


def _check_slots(fitted: Fitted, model: Model, size: int) -> None:
    """Refuse a `max_batch_size` above the engine's own slots, where Triton's already is: it limits nothing.

    Raises:
        UsageError: the engine's slots are fewer than both, the configured size and the one that is given.

    """
    config, engine = fitted.configs.get(model.name), model.engine
    if engine is None or config is None or engine.slots >= min(config.max_batch_size, size):
        return
    raise UsageError(
        f"max_batch_size {config.max_batch_size} does not limit it; the engine's {engine.slots} slots do",
        where=model.name,
        hint=f"try --set {model.name}.engine.max_batch_size={size}",
    )


def _whole(value: SettingValue) -> int:
    return value if isinstance(value, int) else 0


def _instances(fitted: Fitted, model: Model, count: int) -> tuple[Model, list[str]]:
    """Return the model with `count` instances on each device of each group."""
    if model.engine is not None:
        raise Unpredictable("instances of an engine are engines of their own", where=model.name, hint=MEASURE)
    devices = fitted.devices.get(model.name, (1,))
    instances = sum(count * each for each in devices)
    stated: list[str] = []
    if instances > model.instances:
        stated += _doubtful(fitted, model.name)
    if instances > model.instances and not model.demand and not _is_full(fitted, model.name):
        left = fitted.headroom.get(model.name)
        read = "its use was not read" if left is None else f"{Unit.RATIO.show(left)} of it was left"
        stated.append(f"the device has room for {instances} instances of {model.name}: {read}")
    return replace(model, instances=instances), stated


def _is_full(fitted: Fitted, model: str) -> bool:
    return fitted.headroom.get(model, 1.0) < DEVICE_FULL.value


def _doubtful(fitted: Fitted, model: str) -> Iterator[str]:
    """Yield why more instances of a model may bring nothing."""
    if _is_full(fitted, model):
        left = Unit.RATIO.show(fitted.headroom[model])
        yield f"the device under {model} is full ({left} left): more instances would only share it"
    if model in fitted.untold:
        yield f"{SIDE_BY_SIDE} ({model}): if they wait, more of them would wait for it, too"


def doubt(fitted: Fitted, changes: Iterable[ConfigChange]) -> str:
    """Return why more instances may bring nothing, in a sentence; empty where nothing speaks against them."""
    models = {model.name: model for model in fitted.scenario.models}
    more = (
        change.model
        for change in changes
        for setting in change.settings
        if setting.path == "instance_group.count"
        if _instances(fitted, models[change.model], _whole(setting.value))[0].instances > models[change.model].instances
    )
    return "; ".join(reason for model in more for reason in _doubtful(fitted, model))


def _larger(model: Model, most: int) -> list[str]:
    if most <= max(model.service.sizes_seen) or not model.service.estimated:
        return []
    return [f"batches of {model.name} were not seen: they may cost anything from one request's time to each one's"]


def _batched(model: Model, path: str, value: SettingValue) -> Model:
    if path == "dynamic_batching":
        return replace(model, batcher=None if value is None else model.batcher or DynamicBatcher())
    batcher = model.batcher or DynamicBatcher()
    if path in _BATCHING:
        return replace(model, batcher=_BATCHING[path](batcher, value))
    return replace(model, batcher=replace(batcher, policy=_policy(batcher.policy, path, value)))


def _policy(policy: QueueDiscipline | None, path: str, value: SettingValue) -> QueueDiscipline | None:
    """Return the queue policy with one of its fields set; None where nothing of it is left."""
    now = policy or QueueDiscipline()
    name = path.removeprefix(_POLICY).removeprefix(".")
    if name == "max_queue_size":
        now = replace(now, max_size=_whole(value))
    elif name == "default_timeout_microseconds":
        now = replace(now, timeout_seconds=_whole(value) * _MICROSECOND)
    elif name == "timeout_action":
        now = replace(now, action=TimeoutAction.DELAY if value == "DELAY" else TimeoutAction.REJECT)
    elif not name:
        return None
    return now if now != QueueDiscipline() else None


def _delay(batcher: DynamicBatcher, value: SettingValue) -> DynamicBatcher:
    return replace(batcher, delay_seconds=_whole(value) * _MICROSECOND)


def _preferred(batcher: DynamicBatcher, value: SettingValue) -> DynamicBatcher:
    return replace(batcher, preferred=value if isinstance(value, tuple) else ())


def _ordering(batcher: DynamicBatcher, value: SettingValue) -> DynamicBatcher:
    return replace(batcher, preserve_ordering=bool(value))


_BATCHING: Mapping[str, Callable[[DynamicBatcher, SettingValue], DynamicBatcher]] = {
    "dynamic_batching.max_queue_delay_microseconds": _delay,
    "dynamic_batching.preferred_batch_size": _preferred,
    "dynamic_batching.preserve_ordering": _ordering,
}


# What came from outside is never all of an execution: a claim that says so is its measurement's error.
_LEAST_LEFT = 0.05


def relieved(fitted: Fitted, seconds: Mapping[str, float]) -> Fitted:
    """Return the deployment with executions shorter by `seconds` per visit, by model; queues follow by themselves.

    Executions, an engine's iterations and what is hidden behind a row shrink by the same part. A model whose execution
    time was not measured is left as it is.
    """
    parts = {
        stage.model: max(1 - seconds[stage.model] / stage.compute_mean, _LEAST_LEFT)
        for stage in fitted.measured.stages
        if stage.compute_mean and stage.model in seconds
    }
    scenario = replace(
        fitted.scenario,
        models=tuple(_shorter(model, parts.get(model.name, 1.0)) for model in fitted.scenario.models),
        entries=tuple(_hiding_less(entry, parts) for entry in fitted.scenario.entries),
    )
    return replace(fitted, scenario=scenario)


def _shorter(model: Model, part: float) -> Model:
    engine = model.engine and replace(
        model.engine,
        prefill_seconds=model.engine.prefill_seconds * part,
        iteration_seconds=model.engine.iteration_seconds * part,
        iteration_seconds_per_request=model.engine.iteration_seconds_per_request * part,
    )
    return replace(model, service=model.service.scaled(part), engine=engine)


def _hiding_less(entry: EntryGraph, parts: Mapping[str, float]) -> EntryGraph:
    steps = (replace(step, tail_seconds=step.tail_seconds * parts.get(step.model, 1.0)) for step in entry.steps)
    return replace(entry, steps=tuple(steps))
