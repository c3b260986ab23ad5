"""Whether queues stay bounded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt

from diagnostics.tuning.simulation.scenario import EngineModel, EntryGraph, Model, OpenLoop, Scenario, TimeoutAction

# How often the requests inside are counted in a run, and over how many of these counts a mean is taken.
LOOKS = 32
_QUARTER = LOOKS // 4


def capacity(model: Model, items: int = 1) -> float:
    """Return the most requests of `items` items per second that a model executes alone, full batches throughout.

    The best batch size counts: the largest, or one request where batches cost more than their requests one by one, as
    the time per request of an affine service time only rises or only falls with the size. Executions that overlap hide
    the dispatch gap.
    """
    if model.engine:
        return _engine_capacity(model.engine)
    return model.instances / min(model.held(size * items) / size for size in {1, _most(model, items)})


def _most(model: Model, items: int) -> int:
    """Return how many requests of `items` items may share an execution."""
    return max(model.max_batch // items, 1) if model.batcher else 1


def _engine_capacity(engine: EngineModel) -> float:
    slots = float(engine.slots)
    if engine.cache_tokens is not None and engine.tokens_per_request > 0:
        slots = max(min(slots, engine.cache_tokens // engine.tokens_per_request), 1.0)
    joins = slots / engine.iterations
    if engine.token_budget is not None and engine.prefill_tokens > 0:
        joins = min(joins, max((engine.token_budget - slots) / engine.prefill_tokens, 1 / engine.iterations))
    seconds = engine.iteration_seconds + engine.iteration_seconds_per_request * slots + engine.prefill_seconds * joins
    return joins / seconds if seconds > 0 else inf


def holding(scenario: Scenario) -> Scenario:
    """Return the scenario with callers whose executions take as long as they hold an instance, where no call waits."""
    calls = scenario.calls
    if not calls:
        return scenario
    models = {model.name: model for model in scenario.models}
    for caller, called in calls.items():
        model = models[caller]
        inside = sum(models[name].alone for name in called)
        models[caller] = replace(model, service=replace(model.service, base=model.service.base + inside))
    return replace(scenario, models=tuple(models.values()))


def loads(scenario: Scenario, seconds: float) -> Mapping[str, float]:
    """Return the share of each model's, resource's and rate limit's capacity that open-loop traffic asks for.

    Clients in a closed loop wait for what there is and are left out. What a queue policy rejects at a model does not
    reach those behind it.
    """
    models = {model.name: model for model in scenario.models}
    by_name = {model.name: model for model in holding(scenario).models}
    entries = {entry.name: entry for entry in scenario.entries}
    found: dict[str, float] = dict.fromkeys(models, 0.0)
    for _ in models:
        passing = _passing(models, found)
        flows = [
            (models[name], rate, traffic.items)
            for traffic in scenario.traffic
            if isinstance(traffic, OpenLoop)
            for name, rate in visits(entries[traffic.entry], _rate(traffic, seconds), passing)
        ]
        found = dict.fromkeys(models, 0.0)
        for model, rate, items in flows:
            found[model.name] += rate / capacity(by_name[model.name], items)
    passing = _passing(models, found)
    executed = [(model, rate * passing[model.name], items) for model, rate, items in flows]
    return {**found, **_shared(scenario, executed)}


def _passing(models: Mapping[str, Model], loads: Mapping[str, float]) -> Mapping[str, float]:
    """Return the share of what reaches each model that it executes: all, where it turns nothing away."""
    return {name: min(1 / load, 1.0) if sheds(models[name]) and load > 0 else 1.0 for name, load in loads.items()}


def _rate(traffic: OpenLoop, seconds: float) -> float:
    """Return requests per second; of replayed ones what the rate surely was, three deviations below their count."""
    if traffic.times is None:
        return traffic.rate
    count = bisect_left(traffic.times, seconds)
    return max(count - 3 * sqrt(count), 0.0) / seconds


def visits(entry: EntryGraph, rate: float, passing: Mapping[str, float]) -> Sequence[tuple[str, float]]:
    """Return the model of each step with the requests per second that reach it.

    `passing` has the share of its visits that each model executes; a model that it does not name executes all.
    """
    reach: list[float] = []
    found = []
    for step in entry.steps:
        reached = min((reach[before] for before in step.after), default=rate)
        found.append((step.model, reached))
        reach.append(reached * passing.get(step.model, 1.0))
    return found


def _shared(scenario: Scenario, flows: Sequence[tuple[Model, float, int]]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for model, rate, items in flows:
        alone, held = _seconds(model, items)
        for resource in scenario.resources:
            requested = rate * alone * model.demand.get(resource.name, 0.0) / resource.capacity
            found[f"resource {resource.name}"] = found.get(f"resource {resource.name}", 0.0) + requested
        for name, amount in model.rate_limit.items():
            requested = rate * held * amount / max(scenario.rate_limits.get(name, 0), 1)
            found[f"rate limit {name}"] = found.get(f"rate limit {name}", 0.0) + requested
    return found


def _seconds(model: Model, items: int) -> tuple[float, float]:
    """Return the seconds per request of computing, and of occupying an instance, in the best batches."""
    if model.engine:
        seconds = 1 / _engine_capacity(model.engine)
        return seconds, seconds
    alone, held = (
        min(seconds(size * items) / size for size in {1, _most(model, items)})
        for seconds in (model.service.time, model.service.occupancy)
    )
    return alone, held


def sheds(model: Model) -> bool:
    """Return whether a queue policy rejects what is too much: not before an engine, which is simulated without."""
    policy = model.batcher.policy if model.batcher and not model.engine else None
    if policy is None:
        return False
    return policy.max_size > 0 or (policy.timeout_seconds > 0 and policy.action is TimeoutAction.REJECT)


def bounded(scenario: Scenario, seconds: float) -> bool:
    """Return whether every model, resource and rate limit can keep up with the open-loop traffic, or sheds it."""
    shedding = {model.name for model in scenario.models if sheds(model)}
    return all(load < 1 or name in shedding for name, load in loads(scenario, seconds).items())


def grew(seen: Sequence[int], arrived: int) -> bool:
    """Return whether the requests inside, counted `LOOKS` times at equal distances, kept growing.

    They did where their mean rises from each quarter of the run to the next, by more altogether than three standard
    deviations of what chance brings at a load of exactly one: a random walk with about two steps per request.
    """
    if len(seen) < LOOKS:
        return False
    means = [sum(seen[k : k + _QUARTER]) / _QUARTER for k in range(0, LOOKS, _QUARTER)]
    rises = all(before < after for before, after in pairwise(means))
    return rises and means[-1] - means[0] > 3 * sqrt(2 * arrived * 3 / 4)
