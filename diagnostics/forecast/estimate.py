"""Closed-form forecasts: an instant answer, a cross-check of the simulation, and a screen for searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from diagnostics.forecast.closed_form import StageNumbers
from diagnostics.forecast.closed_stages import Stages, closed_stages, with_rest
from diagnostics.forecast.fitted import Fitted
from diagnostics.forecast.load import open_rate
from diagnostics.forecast.performance import Estimate, Performance, StagePerformance
from diagnostics.forecast.what_if import WhatIf, changed
from diagnostics.tuning.simulation.scenario import ClosedLoop, EntryGraph, Model, ModelVisit, OpenLoop, Scenario

_BISECTIONS = 24
# Standard normal quantiles.
_P50, _P95, _P99 = 0.0, 1.6449, 2.3263


def estimate(fitted: Fitted, what_if: WhatIf | None = None) -> Performance:
    """Return what requests to the fitted entry would experience, by formulas.

    Each stage is a queue of its own (`tuning.queueing.predict`) whose arrivals are the entry's; executions that share a
    device are slowed as by the others' mean use; an engine's iterations lengthen with what joins. The latency is that
    of the longest path; its percentiles are those of a gamma distribution with the sum of the waits' variances (Wilson
    and Hilferty 1931). A closed loop's rate follows from the interactive response time law. A queue policy bounds waits
    and rejects requests (`tuning.limited`), of which those that its lost wake-ups cost are not counted: `rejected` is
    the least that is. `None` where a stage cannot keep up.

    Raises:
        UsageError: the change names what is not there.
        Unpredictable: the model does not hold what the change does.

    """
    after = _with_room(fitted if what_if is None else changed(fitted, what_if))
    scenario = opened(after)
    return _performance(after, scenario, _stages(after, scenario))


def _stages(fitted: Fitted, scenario: Scenario) -> Stages:
    """Return the stages as requests find them, busy with all that comes, a client's own requests included."""
    span = fitted.measured.span_seconds
    every = closed_stages(scenario, span)
    if scenario.traffic == fitted.scenario.traffic:
        return every
    seen = closed_stages(_as_seen(fitted, scenario), span)
    numbers = {name: replace(one, busy=every.numbers[name].busy) for name, one in seen.numbers.items()}
    return replace(seen, numbers=numbers, rates=every.rates)


def _with_room(fitted: Fitted) -> Fitted:
    """Return the deployment without the limits that clients in closed loops, who are too few, never reach."""
    traffic = fitted.scenario.traffic
    if not all(isinstance(one, ClosedLoop) for one in traffic):
        return fitted
    most = sum(one.clients for one in traffic if isinstance(one, ClosedLoop))
    models = tuple(_unlimited(model) if _holds(model, most) else model for model in fitted.scenario.models)
    return replace(fitted, scenario=replace(fitted.scenario, models=models))


def _holds(model: Model, clients: int) -> bool:
    policy = model.batcher.policy if model.batcher else None
    return policy is not None and policy.max_size + model.instances >= clients


def _unlimited(model: Model) -> Model:
    assert model.batcher
    assert model.batcher.policy
    policy = replace(model.batcher.policy, max_size=0)
    return replace(model, batcher=replace(model.batcher, policy=policy))


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


def _loop_rate(fitted: Fitted, scenario: Scenario, loop: ClosedLoop, entry: EntryGraph) -> float:
    """Return the rate at which `rate × (latency + thinking)` is the number of clients."""
    models = {model.name: model for model in scenario.models}
    span = fitted.measured.span_seconds
    low, high = 0.0, loop.clients / max(_fixed(entry, models) + loop.think_seconds, 1e-9)
    for _ in range(_BISECTIONS):
        rate = (low + high) / 2
        mean = _path(entry, closed_stages(_with_rate(scenario, loop, rate * _seen(loop)), span).numbers)
        full = _path(entry, closed_stages(_with_rate(scenario, loop, rate), span).numbers) is None
        over = full or mean is None or rate * (mean.mean + loop.think_seconds) > loop.clients
        low, high = (low, rate) if over else (rate, high)
    return low


def _fixed(entry: EntryGraph, models: Mapping[str, Model]) -> float:
    """Return the shortest time that a request can take, about."""
    return max((models[step.model].service.time(1) for step in entry.steps), default=0.0)


@dataclass(frozen=True, slots=True, order=True)
class _Path:
    """The longest path so far: its mean seconds, their range, and the variance along it."""

    mean: float = 0.0
    low: float = 0.0
    high: float | None = field(default=0.0, compare=False)
    variance: float = 0.0


def _path(entry: EntryGraph, stages: Mapping[str, StageNumbers]) -> _Path | None:
    """Return the longest path to the end; None where it never ends."""
    ends: list[_Path] = []
    for step in entry.steps:
        stage = stages[step.model]
        if stage.queue is None:
            return None
        before = max((ends[i] for i in step.after), default=_Path())
        ends.append(_longer(before, step, stage.queue, stage))
    return max(ends)


def _longer(before: _Path, step: ModelVisit, queue: Estimate, stage: StageNumbers) -> _Path:
    passed = step.gap_seconds + step.tail_seconds
    bounded = before.high is not None and queue.high is not None and stage.compute.high is not None
    high = (before.high or 0.0) + (queue.high or 0.0) + (stage.compute.high or 0.0) + passed
    return _Path(
        mean=before.mean + queue.value + stage.compute.value + passed,
        low=before.low + queue.low + stage.compute.low + passed,
        high=high if bounded else None,
        variance=before.variance + stage.variance + step.tail_scv * step.tail_seconds**2,
    )


def _performance(fitted: Fitted, scenario: Scenario, found: Stages) -> Performance:
    entry, stages = next(one for one in scenario.entries if one.name == fitted.entry), found.numbers
    engines = {one.name for one in scenario.models if one.engine}
    rate = sum(open_rate(one) for one in scenario.traffic if isinstance(one, OpenLoop) and one.entry == entry.name)
    served, refused = _flow(entry, found)
    path = _path(entry, stages)
    loop = next(
        (one for one in fitted.scenario.traffic if one.entry == entry.name and isinstance(one, ClosedLoop)), None
    )
    if path is not None and loop is not None:
        whole = _bounded(path, loop, rate, stages)
        found, path = with_rest(found, scenario, entry, loop.clients, max(whole.mean - path.mean, 0.0)), whole
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
        throughput=Estimate(value=rate * served, low=rate * served, high=rate * served),
        rejected=rate * refused,
        stages=tuple(
            replace(_of(model, found), engine=model in engines)
            for model in dict.fromkeys(step.model for step in entry.steps)
        ),
    )


def _flow(entry: EntryGraph, found: Stages) -> tuple[float, float]:
    """Return the shares of the entry's requests that are answered and that are rejected.

    Stages turn requests away by chance, each for itself. Those that are full serve the same requests, the first.
    """
    kept, refused, reach = 1.0, 0.0, list[float]()
    for step in entry.steps:
        before = min((reach[i] for i in step.after), default=1.0)
        lost = found.numbers[step.model].lost
        refused += before * kept * lost
        kept *= 1 - lost
        reach.append(before * found.full.get(step.model, 1.0))
    return min(reach) * kept, refused


def _bounded(path: _Path, loop: ClosedLoop, rate: float, stages: Mapping[str, StageNumbers]) -> _Path:
    """Return the path of a closed loop, whose mean follows from its rate by the response time law.

    Its bounds are no less than alone, and no more than behind all other clients. A latency is made of about as many
    executions as there are clients, and varies as their mean does.
    """
    alone = sum(stage.compute.low for stage in stages.values())
    mean = max(loop.clients / rate - loop.think_seconds, 0.0) if rate > 0 else path.mean
    variance = min(path.variance, mean**2 / loop.clients)
    return replace(path, mean=mean, low=min(alone, mean), high=max(loop.clients * alone, mean), variance=variance)


def _of(model: str, found: Stages) -> StagePerformance:
    stage = found.numbers[model]
    return StagePerformance(
        model=model,
        queue_mean=stage.queue,
        queue_p95=None,
        compute_mean=stage.compute,
        busy_share=Estimate(value=stage.busy, low=stage.busy, high=stage.busy),
        batch_size_mean=stage.batch,
        refused_per_second=stage.lost * found.rates.get(model, 0.0) / found.items,
        stable=stage.queue is not None,
    )


def _quantile(path: _Path, z: float) -> Estimate:
    shape = path.mean**2 / path.variance if path.variance > 0 else 1e9
    spread = 1 / (9 * shape)
    factor = max(1 - spread + z * spread**0.5, 0.0) ** 3
    high = None if path.high is None else path.high * factor
    return Estimate(value=path.mean * factor, low=path.low * factor, high=high)
