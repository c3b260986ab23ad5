"""All stages of a scenario by formulas: what reaches each, what slows it, and what it rejects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isclose

from diagnostics.forecast.closed_form import Offer, StageNumbers, engine_numbers, stage_numbers, with_callers
from diagnostics.forecast.load import drain_seconds, offered, open_rate, whole
from diagnostics.forecast.performance import Estimate
from diagnostics.forecast.sharing import SharedInstance, shares
from diagnostics.tuning.simulation.scenario import EntryGraph, Model, OpenLoop, Resource, Scenario
from diagnostics.tuning.simulation.stability import sheds

_ROUNDS = 8
# Rounds halfway between two, and the difference that ends them: less than anything is known to.
_HALFWAY, _SAME = 16, 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """All stages.

    Attributes:
        numbers: by model.
        rates: items per second that reach each model.
        full: share of what reaches it that a model executes, of those that cannot keep up and turn nothing away.
        items: the most items of a request.

    """

    numbers: Mapping[str, StageNumbers]
    rates: Mapping[str, float]
    full: Mapping[str, float]
    items: int


def closed_stages(scenario: Scenario, span: float) -> Stages:
    """Return the stages of open traffic; ranges are those of a window of `span` seconds.

    What a stage rejects, or has no time for, does not reach those behind it: rounds are made until nothing changes.
    Where what is rejected frees a shared device, so that less is, they go to and fro: then halfway, until that is
    little.
    """
    scenario = whole(scenario)
    full, passing = dict[str, float](), dict[str, float]()
    for number in range(len(scenario.models) + 1 + _HALFWAY):
        rates = offered(scenario, passing)
        found = _numbers(scenario, rates, span)
        full = _full(scenario, found, rates)
        now = {**{name: 1 - one.lost for name, one in found.items() if one.lost}, **full}
        if all(isclose(now.get(name, 1.0), passing.get(name, 1.0), rel_tol=_SAME) for name in {**now, **passing}):
            break
        passing = now if number <= len(scenario.models) else _halfway(passing, now)
    items = max((one.items for one in scenario.traffic), default=1)
    return Stages(numbers=_after_bursts(scenario, found, rates), rates=rates, full=full, items=items)


def with_rest(found: Stages, scenario: Scenario, entry: EntryGraph, clients: int, rest: float) -> Stages:
    """Return the stages of a closed loop's entry with the seconds per request that its response time law leaves.

    All but a few clients are at the bottleneck (asymptotic bounds; Denning & Buzen, "The operational analysis of
    queueing network models", 1978): in its executions, as far as as many as there are clients slow each other down on
    what they share, and in its queue.
    """
    uses = dict(_uses(found, scenario, entry))
    (name, resource), _ = max(uses.items(), key=lambda one: one[1])
    model, one = next(model for model in scenario.models if model.name == name), found.numbers[name]
    if one.queue is None:
        return found
    each = rest / max(sum(step.model == name for step in entry.steps), 1)
    slower = 0.0
    if resource is not None and model.engine is None:
        beside = min(model.instances, clients) * model.demand[resource.name] / resource.capacity
        slower = min(max(model.service.time(one.batch or 1) * beside - one.compute.value, 0.0), each)
    queue, compute = _longer(one.queue, each - slower), _longer(one.compute, slower)
    busy = min(one.busy * compute.value / one.compute.value, 1.0) if one.compute.value > 0 else one.busy
    numbers = replace(one, queue=queue, compute=compute, busy=busy)
    return replace(found, numbers={**found.numbers, name: numbers})


def _uses(found: Stages, scenario: Scenario, entry: EntryGraph) -> Iterator[tuple[tuple[str, Resource | None], float]]:
    """Yield the share of time in which an entry's models, and what they share, are at work."""
    for model in scenario.models:
        if model.name not in {step.model for step in entry.steps}:
            continue
        yield (model.name, None), found.numbers[model.name].busy
        for resource in scenario.resources:
            if model.demand.get(resource.name):
                every = (
                    _wanted(one, resource.name, found.rates.get(one.name, 0.0)) for one in _users(scenario, resource)
                )
                yield (model.name, resource), sum(every) / resource.capacity


def _users(scenario: Scenario, resource: Resource) -> Sequence[Model]:
    return [model for model in scenario.models if model.demand.get(resource.name)]


def _longer(one: Estimate, seconds: float) -> Estimate:
    value = one.value + seconds
    return Estimate(value=value, low=one.low, high=None if one.high is None else max(one.high, value))


def _halfway(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: (one.get(name, 1.0) + other.get(name, 1.0)) / 2 for name in {**one, **other}}


def _full(scenario: Scenario, found: Mapping[str, StageNumbers], rates: Mapping[str, float]) -> dict[str, float]:
    full = [model for model in scenario.models if found[model.name].queue is None and rates.get(model.name, 0.0) > 0]
    return {model.name: min(1 / drain_seconds(model) / rates[model.name], 1.0) for model in full}


def _numbers(scenario: Scenario, rates: Mapping[str, float], span: float) -> Mapping[str, StageNumbers]:
    slowed, requested = _slowed(scenario, rates), _requested(scenario, span)
    found = {
        model.name: engine_numbers(model.engine, rates.get(model.name, 0.0), slowed.get(model.name, 1.0))
        if model.engine
        else stage_numbers(model, replace(requested, rate=rates.get(model.name, 0.0)), slowed.get(model.name, 1.0))
        for model in scenario.models
    }
    return with_callers(scenario, found, rates, requested)


def _requested(scenario: Scenario, span: float) -> Offer:
    """Return how requests come, but for how many."""
    bursts = [one.burst for one in scenario.traffic if isinstance(one, OpenLoop)]
    items = max((one.items for one in scenario.traffic), default=1)
    return Offer(rate=0.0, scv=_arrival_scv(scenario), burst=max(bursts, default=1.0), items=items, span=span)


def _after_bursts(
    scenario: Scenario, stages: Mapping[str, StageNumbers], rates: Mapping[str, float]
) -> Mapping[str, StageNumbers]:
    """Return the stages with what bursts wait: at the slowest one, which spaces them for those behind it.

    A request waits for half of its burst, and for what else comes meanwhile: `(burst - 1) / 2 × seconds per request /
    (1 - load)`, the mean of M[X]/D/1 beyond that of M/D/1 (Gross et al., Fundamentals of Queueing Theory, 3.1). A
    limited queue, whose wait has the bursts in it already, has no room for them.
    """
    burst = max((one.burst for one in scenario.traffic if isinstance(one, OpenLoop)), default=1.0)
    if burst <= 1:
        return stages
    slowest = max(scenario.models, key=drain_seconds)
    if sheds(slowest):
        return stages
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
        for name, factor in _slowed_on(resource, _users(scenario, resource), rates).items():
            found[name] = max(found[name], factor)
    return found


def _slowed_on(resource: Resource, users: Sequence[Model], rates: Mapping[str, float]) -> Mapping[str, float]:
    found = {model.name: 1.0 for model in users}
    firm = [model for model in users if not sheds(model)]
    if sum(_wanted(model, resource.name, rates.get(model.name, 0.0)) for model in firm) >= resource.capacity:
        # More than it can do, and nothing is rejected: in the end all lanes are at work at once.
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


def _lanes(model: Model, resource: str, rate: float, slowed: float) -> list[SharedInstance]:
    if model.engine is not None:
        running = rate * model.engine.iterations * model.engine.iteration_seconds * slowed
        return [SharedInstance(model=model.name, busy=min(running, 1.0), weight=model.demand[resource])]
    busy = rate * model.service.time(1) * slowed / model.instances
    return [SharedInstance(model=model.name, busy=min(busy, 1.0), weight=model.demand[resource])] * model.instances
