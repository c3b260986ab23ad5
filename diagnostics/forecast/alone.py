"""What executions take alone on a card that they share: what makes the simulated window's executions the measured ones.

Where executions slow each other down, they overlap longer than instances that know nothing of one another would. So the
time alone is not the measured one divided by a mean over independent instances. Neither is the measured spread the
work's: part of it is who else was running. Nor is what an item costs: large batches form while others run.
All three are found with the simulation, as the fixed point of a few runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import groupby
from statistics import fmean, pvariance

from diagnostics.tuning.service import BatchPoint, ServiceTime, fit
from diagnostics.tuning.simulation.observing import ModelOutcome, SimulationResult
from diagnostics.tuning.simulation.scenario import Model, OpenLoop, Scenario

_ROUNDS = 5
# A longer execution overlaps more, and so is slowed more: on a card that is half used, one that takes a hundredth
# longer alone takes two hundredths longer. A step of the whole difference would overshoot.
_STEP = 0.5
# A step by less than this part cannot be separated from the chance of a run's executions: of 2,000 with a spread of a
# fifth of their mean, the mean is off by as much.
_SETTLED = 0.005
# Executions of fewer requests say nothing of their mean.
_ENOUGH = 50
# A step changes a time by no more than this: where a run says more, it is not the measured window.
_MOST = 2.0
# Of one that is nearly as regular as a clock, the spread is not known better than this part of what was measured.
_LEAST_SPREAD = 0.02


def unslowed(
    scenario: Scenario, measured: Mapping[str, Model], run: Callable[[Scenario], SimulationResult]
) -> Scenario:
    """Return the scenario with the service times of `measured` models as they are alone on what they share.

    Args:
        scenario: the window, with a first guess of them.
        measured: the models that share a card, by name, with their service times and spreads as they were measured.
        run: simulates the window.

    """
    for _ in range(_ROUNDS):
        outcome = run(scenario)
        models = (
            _corrected(model, measured[model.name], outcome.models[model.name]) if model.name in measured else model
            for model in scenario.models
        )
        before, scenario = scenario, replace(scenario, models=tuple(models))
        if all(_is_settled(*both) for both in zip(before.models, scenario.models, strict=True)):
            break
    return scenario


def _is_settled(before: Model, after: Model) -> bool:
    pivot = after.service.pivot
    return abs(after.service.time(pivot) - before.service.time(pivot)) <= _SETTLED * before.service.time(pivot)


def both_arrivals(scenario: Scenario) -> tuple[Scenario, ...]:
    """Return the scenario, and where arrivals are fitted as more even than by chance, the same with such by chance.

    Their index of dispersion is of seconds: within these, in which executions overlap, they may be either.
    """
    by_chance = tuple(
        replace(one, scv=1.0) if isinstance(one, OpenLoop) and one.times is None and one.scv < 1 else one
        for one in scenario.traffic
    )
    return (scenario,) if by_chance == scenario.traffic else (scenario, replace(scenario, traffic=by_chance))


def _corrected(model: Model, measured: Model, outcome: ModelOutcome) -> Model:
    if len(outcome.service) < _ENOUGH:
        return model
    mean = fmean(outcome.service)
    shared = max(pvariance(outcome.service, mean) / mean**2 - model.service_scv, 0.0)
    scv = max(measured.service_scv - shared, _LEAST_SPREAD * measured.service_scv)
    return replace(
        model, service=_alone(model.service, measured.service, fit(_points(model, outcome))), service_scv=scv
    )


def _points(model: Model, outcome: ModelOutcome) -> list[BatchPoint]:
    """Return the simulated executions by size: requests of one execution are taken together, and take equally long."""
    if model.batcher is None:
        return [BatchPoint(size=1, executions=len(outcome.service), seconds=fmean(outcome.service))]
    found: dict[int, list[float]] = {}
    for seconds, requests in groupby(outcome.service):
        found.setdefault(sum(1 for _ in requests), []).append(seconds)
    return [BatchPoint(size=size, executions=len(each), seconds=fmean(each)) for size, each in found.items()]


def _alone(guess: ServiceTime, measured: ServiceTime, simulated: ServiceTime) -> ServiceTime:
    """Return a better guess of a service time alone, of what it came to in the simulated window."""
    pivot = measured.pivot
    known = guess.time(pivot) * _step(measured.time(pivot) / simulated.time(pivot))
    slope = guess.per_item * known / guess.time(pivot)
    if not measured.estimated and measured.per_item > 0 and len(simulated.sizes_seen) > 1 and simulated.per_item > 0:
        slope = min(guess.per_item * _step(measured.per_item / simulated.per_item), known / pivot)
    part = slope / measured.per_item if measured.per_item > 0 else 0.0
    return replace(
        measured,
        base=max(known - slope * pivot, 0.0),
        per_item=slope,
        per_item_low=part * measured.per_item_low,
        per_item_high=part * measured.per_item_high,
    )


def _step(ratio: float) -> float:
    return float(min(max(ratio, 1 / _MOST), _MOST) ** _STEP)
