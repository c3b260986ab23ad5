from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from diagnostics.forecast.alone import both_arrivals, unslowed
from diagnostics.tuning.service import BatchPoint, ServiceTime, fit
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import (
    DynamicBatcher,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    Resource,
    Scenario,
)
from diagnostics.tuning.simulation.simulate import simulate

CARD = {"GPU": 1.0}


def linear(base: float, per_item: float) -> ServiceTime:
    return fit([BatchPoint(size=size, executions=100, seconds=base + per_item * size) for size in (1, 2, 4)])


def scenario(models: Sequence[Model], rate: float, scv: float = 1.0) -> Scenario:
    steps = tuple(ModelVisit(model=model.name, after=(at - 1,) if at else ()) for at, model in enumerate(models))
    return Scenario(
        models=tuple(models),
        entries=(EntryGraph(name="chat", steps=steps),),
        traffic=(OpenLoop(entry="chat", rate=rate, scv=scv),),
        resources=(Resource(name="GPU"),),
    )


def run(one: Scenario) -> SimulationResult:
    return simulate(one, seconds=40.0, warmup_seconds=4.0, seed=3)


def measured_of(truth: Scenario) -> Mapping[str, Model]:
    """Return the models as a window shows them, in which they slow each other."""
    outcome, found = run(truth), {}
    for model in truth.models:
        times = outcome.models[model.name].service
        mean = sum(times) / len(times)
        spread = sum((one - mean) ** 2 for one in times) / len(times) / mean**2
        found[model.name] = replace(
            model, service=model.service.scaled(mean / model.service.time(1)), service_scv=spread
        )
    return found


def test_the_times_and_the_spread_alone_are_those_that_make_the_measured_ones() -> None:
    truth = scenario(
        [
            Model(name="first", service=linear(0.004, 0.0), demand=CARD),
            Model(name="second", service=linear(0.007, 0.0), instances=2, demand=CARD),
        ],
        rate=60.0,
    )
    measured = measured_of(truth)
    assert measured["second"].service.time(1) > 1.3 * 0.007
    guess = replace(truth, models=tuple(measured.values()))

    found = {model.name: model for model in unslowed(guess, measured, run).models}

    assert found["first"].service.time(1) == pytest.approx(0.004, rel=0.03)
    assert found["second"].service.time(1) == pytest.approx(0.007, rel=0.03)
    assert found["second"].service_scv < 0.2 * measured["second"].service_scv


def test_what_an_item_costs_is_not_what_large_batches_take_while_others_run() -> None:
    batching = DynamicBatcher(delay_seconds=0.0)
    truth = scenario(
        [
            Model(name="first", service=linear(0.006, 0.001), max_batch=8, batcher=batching, demand=CARD),
            Model(name="second", service=linear(0.005, 0.0), demand=CARD),
        ],
        rate=80.0,
    )
    seen = {**measured_of(truth)}
    seen["first"] = replace(seen["first"], service=linear(0.006, 0.0025))
    guess = replace(truth, models=tuple(seen.values()))

    found = {model.name: model for model in unslowed(guess, seen, run).models}["first"].service

    assert found.per_item < 0.0025
    assert found.per_item_high == pytest.approx(seen["first"].service.per_item_high * found.per_item / 0.0025, rel=0.05)


def test_a_model_with_a_card_of_its_own_keeps_its_time() -> None:
    alone = scenario([Model(name="first", service=linear(0.005, 0.0), demand=CARD)], rate=60.0)
    measured = {model.name: model for model in alone.models}

    (found,) = unslowed(alone, measured, run).models

    assert found.service.time(1) == pytest.approx(0.005, rel=1e-3)


def test_arrivals_that_look_even_over_seconds_may_come_by_chance_within_them() -> None:
    even = scenario([Model(name="first", service=linear(0.005, 0.0))], rate=60.0, scv=0.1)
    by_chance = replace(even, traffic=(replace(even.traffic[0], scv=1.0),))

    assert both_arrivals(even) == (even, by_chance)
    assert both_arrivals(by_chance) == (by_chance,)
