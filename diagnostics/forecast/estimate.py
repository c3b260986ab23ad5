"""Closed-form forecasts: an instant answer, a cross-check of the simulation, and a screen for searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.forecast.closed_form import StageNumbers, engine_numbers, stage_numbers
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import drain_seconds, offered, open_rate, whole
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.sharing import Lane, shares
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.scenario import ClosedLoop, Entry, Model, OpenLoop, Resource, Scenario, Step

_ROUNDS = 8
_BISECTIONS = 24
# Standard normal quantiles.
_P50, _P95, _P99 = 0.0, 1.6449, 2.3263


def estimate(fitted: Fitted, what_if: WhatIf | None = None) -> Performance:
    """Return what requests to the fitted entry would experience, by formulas.

    Each stage is a queue of its own (`tuning.queueing.predict`) whose arrivals are the entry's; executions that share
    a device are slowed as by the others' mean use; an engine's iterations lengthen with what joins. The latency is that
    of the longest path; its percentiles are those of a gamma distribution with the sum of the waits' variances
    (Wilson and Hilferty 1931). A closed loop's rate follows from the interactive response time law. A queue's limit
    bounds its wait, and what it turns away below full load is not counted. `None` where a stage cannot keep up.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = fitted if what_if is None else changed(fitted, what_if)
    scenario = opened(after)
    stages = _stages(after, _as_seen(after, scenario))
    return _performance(after, scenario, stages)


def opened(fitted: Fitted) -> Scenario:
    """Return the scenario with closed loops as open ones of the rate that they come to."""
    scenario = fitted.scenario
    for loop in (one for one in scenario.traffic if isinstance(one, ClosedLoop)):
        scenario = replace(scenario, traffic=tuple(one for one in scenario.traffic if one is not loop))
        entry = next(one for one in scenario.entries if one.name == loop.entry)
        scenario = _with_rate(scenario, loop, _loop_rate(fitted, scenario, loop, entry))
    return scenario


def _with_rate(scenario: Scenario, loop: ClosedLoop, rate: float) -> Scenario:
    return replace(scenario, traffic=(*scenario.traffic, OpenLoop(entry=loop.entry, rate=rate, items=loop.items)))


def _seen(loop: ClosedLoop) -> float:
    """Return the part of a loop's rate that one of its requests finds before it: a client never waits for itself.

    Arrival theorem in Bard's and Schweitzer's approximation (Schweitzer 1979): with `N` clients `(N - 1) / N` of it.
    """
    return (loop.clients - 1) / loop.clients if loop.clients > 0 else 0.0


def _as_seen(fitted: Fitted, scenario: Scenario) -> Scenario:
    """Return the opened scenario with the rates that requests find before them."""
    seen = {one.entry: _seen(one) for one in fitted.scenario.traffic if isinstance(one, ClosedLoop)}
    traffic = (
        replace(one, rate=one.rate * seen[one.entry]) if isinstance(one, OpenLoop) and one.entry in seen else one
        for one in scenario.traffic
    )
    return replace(scenario, traffic=tuple(traffic))


def _loop_rate(fitted: Fitted, scenario: Scenario, loop: ClosedLoop, entry: Entry) -> float:
    """Return the rate at which `rate × (latency + thinking)` is the number of clients."""
    models = {model.name: model for model in scenario.models}
    low, high = 0.0, loop.clients / max(_fixed(entry, models) + loop.think_seconds, 1e-9)
    for _ in range(_BISECTIONS):
        rate = (low + high) / 2
        mean = _path(entry, _stages(fitted, _with_rate(scenario, loop, rate * _seen(loop))))
        full = _path(entry, _stages(fitted, _with_rate(scenario, loop, rate))) is None
        over = full or mean is None or rate * (mean.mean + loop.think_seconds) > loop.clients
        low, high = (low, rate) if over else (rate, high)
    return low


def _fixed(entry: Entry, models: Mapping[str, Model]) -> float:
    """Return the shortest time that a request can take, about."""
    return max((models[step.model].service.time(1) for step in entry.steps), default=0.0)


def _stages(fitted: Fitted, scenario: Scenario) -> Mapping[str, StageNumbers]:
    scenario = whole(scenario)
    rates, scv = offered(scenario), _arrival_scv(scenario)
    slowed = _slowed(scenario, rates)
    span = fitted.measured.span_seconds
    found = {
        model.name: engine_numbers(model.engine, rates.get(model.name, 0.0), slowed.get(model.name, 1.0))
        if model.engine
        else stage_numbers(model, rates.get(model.name, 0.0), slowed.get(model.name, 1.0), scv, span)
        for model in scenario.models
    }
    return _after_bursts(scenario, found, rates)


def _after_bursts(
    scenario: Scenario, stages: Mapping[str, StageNumbers], rates: Mapping[str, float]
) -> Mapping[str, StageNumbers]:
    """Return the stages with what bursts wait: at the slowest one, which spaces them for those behind it.

    A request waits for half of its burst, and for what else comes meanwhile: `(burst - 1) / 2 × seconds per request /
    (1 - load)`, the mean of M[X]/D/1 beyond that of M/D/1 (Gross et al., Fundamentals of Queueing Theory, 3.1).
    """
    burst = max((one.burst for one in scenario.traffic if isinstance(one, OpenLoop)), default=1.0)
    if burst <= 1:
        return stages
    slowest = max(scenario.models, key=drain_seconds)
    each, stage = drain_seconds(slowest), stages[slowest.name]
    left = 1 - rates.get(slowest.name, 0.0) * each
    if left <= 0 or stage.queue is None:
        return stages
    waits = (burst - 1) / 2 * each / left
    # Even over the burst's length: its variance is a third of the squared mean.
    high = None if stage.queue.high is None else 2 * waits + stage.queue.high
    queue = Estimate(value=stage.queue.value + waits, low=stage.queue.low, high=high)
    return {**stages, slowest.name: replace(stage, queue=queue, variance=stage.variance + waits**2 / 3)}


def _arrival_scv(scenario: Scenario) -> float:
    """Return the mean variability of open arrivals, by rate; recorded ones are taken for independent."""
    weighted = [
        (open_rate(o), 1.0 if o.times is not None else o.scv) for o in scenario.traffic if isinstance(o, OpenLoop)
    ]
    total = sum(rate for rate, _ in weighted)
    return sum(rate * scv for rate, scv in weighted) / total if total > 0 else 1.0


def _slowed(scenario: Scenario, rates: Mapping[str, float]) -> Mapping[str, float]:
    """Return how many times as long each model's executions take beside the others on what they share most."""
    found = {model.name: 1.0 for model in scenario.models}
    for resource in scenario.resources:
        users = [model for model in scenario.models if model.demand.get(resource.name)]
        for name, factor in _slowed_on(resource, users, rates).items():
            found[name] = max(found[name], factor)
    return found


def _slowed_on(resource: Resource, users: Sequence[Model], rates: Mapping[str, float]) -> Mapping[str, float]:
    found = {model.name: 1.0 for model in users}
    if sum(_wanted(model, resource.name, rates.get(model.name, 0.0)) for model in users) >= resource.capacity:
        # More than it can do: in the end all lanes are at work at once.
        most = sum(model.demand[resource.name] * (1 if model.engine else model.instances) for model in users)
        return dict.fromkeys(found, max(most / resource.capacity, 1.0))
    for _ in range(_ROUNDS):
        lanes = tuple(
            lane
            for model in users
            for lane in _lanes(model, resource.name, rates.get(model.name, 0.0), found[model.name])
        )
        for name, part in shares(lanes, 1.0, resource.capacity).items():
            found[name] = (found[name] + 1 / max(part.alone, 1e-6)) / 2
    return found


def _wanted(model: Model, resource: str, rate: float) -> float:
    """Return how much of a resource a model's work takes, in full batches where it batches."""
    if model.engine is not None:
        return min(rate * model.engine.iterations * model.engine.iteration_seconds, 1.0) * model.demand[resource]
    most = model.max_batch if model.batcher is not None else 1
    return rate * model.service.time(most) / most * model.demand[resource]


def _lanes(model: Model, resource: str, rate: float, slowed: float) -> list[Lane]:
    if model.engine is not None:
        running = rate * model.engine.iterations * model.engine.iteration_seconds * slowed
        return [Lane(model=model.name, busy=min(running, 1.0), weight=model.demand[resource])]
    busy = rate * model.service.time(1) * slowed / model.instances
    return [Lane(model=model.name, busy=min(busy, 1.0), weight=model.demand[resource])] * model.instances


@dataclass(frozen=True, slots=True, order=True)
class _Path:
    """The longest path so far: its mean seconds, their range, and the variance along it."""

    mean: float = 0.0
    low: float = 0.0
    high: float | None = field(default=0.0, compare=False)
    variance: float = 0.0


def _path(entry: Entry, stages: Mapping[str, StageNumbers]) -> _Path | None:
    """Return the longest path to the end; None where it never ends."""
    ends: list[_Path] = []
    for step in entry.steps:
        stage = stages[step.model]
        if stage.queue is None:
            return None
        before = max((ends[i] for i in step.after), default=_Path())
        ends.append(_longer(before, step, stage.queue, stage))
    return max(ends)


def _longer(before: _Path, step: Step, queue: Estimate, stage: StageNumbers) -> _Path:
    passed = step.gap_seconds + step.tail_seconds
    bounded = before.high is not None and queue.high is not None and stage.compute.high is not None
    high = (before.high or 0.0) + (queue.high or 0.0) + (stage.compute.high or 0.0) + passed
    return _Path(
        mean=before.mean + queue.value + stage.compute.value + passed,
        low=before.low + queue.low + stage.compute.low + passed,
        high=high if bounded else None,
        variance=before.variance + stage.variance + step.tail_scv * step.tail_seconds**2,
    )


def _performance(fitted: Fitted, scenario: Scenario, stages: Mapping[str, StageNumbers]) -> Performance:
    entry = next(one for one in scenario.entries if one.name == fitted.entry)
    rate = sum(open_rate(one) for one in scenario.traffic if isinstance(one, OpenLoop) and one.entry == entry.name)
    path = _path(entry, stages)
    loop = next(
        (one for one in fitted.scenario.traffic if one.entry == entry.name and isinstance(one, ClosedLoop)), None
    )
    if path is not None and loop is not None:
        path = _bounded(path, loop, rate, stages)
    served = rate * _carried(scenario, entry)
    quantiles: list[Estimate | None] = [None, None, None]
    mean = None
    if path is not None:
        mean = Estimate(value=path.mean, low=min(path.low, path.mean), high=path.high)
        quantiles = [_quantile(path, z) for z in (_P50, _P95, _P99)]
    return Performance(
        entry=entry.name,
        mean=mean,
        p50=quantiles[0],
        p95=quantiles[1],
        p99=quantiles[2],
        throughput=Estimate(value=served, low=served, high=served),
        rejected=rate - served if path is not None else 0.0,
        stages=tuple(_of(model, stages[model]) for model in dict.fromkeys(step.model for step in entry.steps)),
    )


def _carried(scenario: Scenario, entry: Entry) -> float:
    """Return the part of what is offered to the entry's stages, by all entries, that the fullest one executes."""
    wanted, own = offered(scenario), {step.model for step in entry.steps}
    most = {model.name: 1 / drain_seconds(model) for model in whole(scenario).models}
    return min((most[name] / wanted[name] for name in own if wanted[name] > most[name]), default=1.0)


def _bounded(path: _Path, loop: ClosedLoop, rate: float, stages: Mapping[str, StageNumbers]) -> _Path:
    """Return the path of a closed loop, whose mean follows from its rate by the response time law.

    Its bounds are no less than alone, and no more than behind all other clients. A latency is made of about as many
    executions as there are clients, and varies as their mean does.
    """
    alone = sum(stage.compute.low for stage in stages.values())
    mean = max(loop.clients / rate - loop.think_seconds, 0.0) if rate > 0 else path.mean
    variance = min(path.variance, mean**2 / loop.clients)
    return replace(path, mean=mean, low=min(alone, mean), high=max(loop.clients * alone, mean), variance=variance)


def _of(model: str, stage: StageNumbers) -> StagePerformance:
    return StagePerformance(
        model=model,
        queue_mean=stage.queue,
        queue_p95=None,
        compute_mean=stage.compute,
        busy_share=Estimate(value=stage.busy, low=stage.busy, high=stage.busy),
        batch_size_mean=stage.batch,
        refused_per_second=0.0,
        stable=stage.queue is not None,
    )


def _quantile(path: _Path, z: float) -> Estimate:
    shape = path.mean**2 / path.variance if path.variance > 0 else 1e9
    spread = 1 / (9 * shape)
    factor = max(1 - spread + z * spread**0.5, 0.0) ** 3
    high = None if path.high is None else path.high * factor
    return Estimate(value=path.mean * factor, low=path.low * factor, high=high)
