"""Executions that call other models while they hold their instance, against a simulation of their own in `simpy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import (
    DynamicBatcher,
    EntryGraph,
    ModelVisit,
    OpenLoop,
    QueueDiscipline,
    Scenario,
)
from tests.tuning.simpy_calls import Caller
from tests.tuning.simulated import mean, milliseconds, model, run

RATE, REQUESTS = 20.0, 4_000
CALLEE, BESIDE = 0.04, 0.011


def arrivals(rate: float = RATE) -> tuple[float, ...]:
    rng, now, times = Random(5), 0.0, []
    for _ in range(REQUESTS):
        now += rng.expovariate(rate)
        times.append(now)
    return tuple(times)


def calling(
    times: Sequence[float], instances: int, own: float, *called: tuple[str, int, float], rounds: int = 1
) -> Scenario:
    """Return a wrapper that calls these models (name, instances, seconds) in turn, so many times."""
    names = [name for _ in range(rounds) for name, _, _ in called]
    steps = (
        ModelVisit(model="wrapper"),
        *(ModelVisit(model=name, after=(place,), caller=0) for place, name in enumerate(names)),
    )
    return Scenario(
        models=(
            model(own, name="wrapper", instances=instances),
            *(model(seconds, name=name, instances=count) for name, count, seconds in called),
        ),
        entries=(EntryGraph(name="wrapper", steps=steps),),
        traffic=(OpenLoop(entry="wrapper", times=times),),
    )


def keeps_up(scenario: Scenario, rate: float) -> bool:
    return run(replace(scenario, traffic=(OpenLoop(entry="wrapper", rate=rate),)), seconds=60.0).stable


def latencies(outcome: SimulationResult) -> list[float]:
    return milliseconds(sorted(outcome.entries["wrapper"].latencies))


@pytest.mark.parametrize(("instances", "callees"), [(12, 1), (12, 2), (3, 1), (1, 1), (2, 2)])
def test_a_wrapper_holds_its_instance_as_simpy_has_it(instances: int, callees: int) -> None:
    times, called = arrivals(), (("callee", callees, CALLEE), ("beside", 1, BESIDE))
    rate = 1.0 if instances > 1 else 2.0  # one instance keeps up with half of it
    times = tuple(at * rate for at in times)
    ours = run(calling(times, instances, 0.002, *called), seconds=times[-1] + 30)
    theirs = Caller(times, instances, 0.002, [(count, seconds) for _, count, seconds in called]).run()

    assert latencies(ours) == pytest.approx(milliseconds(sorted(theirs.latencies)), abs=1e-3)
    assert sum(ours.models["wrapper"].waits) == pytest.approx(sum(theirs.waits), abs=1e-6)
    for name, waits in zip(("callee", "beside"), theirs.inner_waits, strict=True):
        assert sum(ours.models[name].waits) == pytest.approx(sum(waits), abs=1e-6)


def test_several_calls_of_one_model_follow_each_other() -> None:
    times = arrivals(8.0)
    ours = run(calling(times, 4, 0.005, ("callee", 1, CALLEE), rounds=2), seconds=times[-1] + 30)
    theirs = Caller(times, 4, 0.005, [(1, CALLEE)]).run()
    assert len(ours.models["callee"].waits) == 2 * REQUESTS
    assert min(ours.entries["wrapper"].latencies) == pytest.approx(0.005 + 2 * CALLEE)
    assert mean(ours.entries["wrapper"].latencies) > mean(theirs.latencies) + CALLEE


def test_a_callee_that_calls_holds_its_instance_too() -> None:
    steps = (
        ModelVisit(model="outer"),
        ModelVisit(model="inner", caller=0, after=(0,)),
        ModelVisit(model="leaf", caller=1, after=(1,)),
    )
    scenario = Scenario(
        models=(model(0.01, name="outer", instances=4), model(0.01, name="inner"), model(0.03, name="leaf")),
        entries=(EntryGraph(name="outer", steps=steps),),
        traffic=(OpenLoop(entry="outer", times=(0.0, 0.001)),),
    )
    outcome = run(scenario)

    assert milliseconds(outcome.entries["outer"].latencies) == [50, 89]
    # The second waits for the one instance of `inner`, which waits for `leaf`: not for `leaf`.
    assert milliseconds(outcome.models["inner"].waits) == [0, 39]
    assert milliseconds(outcome.models["leaf"].waits) == [0, 0]
    assert milliseconds(outcome.models["outer"].service) == [10, 10]


def test_what_follows_a_caller_follows_its_last_call() -> None:
    steps = (
        ModelVisit(model="caller"),
        ModelVisit(model="callee", caller=0, after=(0,)),
        ModelVisit(model="last", after=(1,)),
    )
    scenario = Scenario(
        models=tuple(model(0.01, name=name) for name in ("caller", "callee", "last")),
        entries=(EntryGraph(name="e", steps=steps),),
        traffic=(OpenLoop(entry="e", times=(0.0, 0.0)),),
    )
    outcome = run(scenario)

    assert milliseconds(outcome.entries["e"].latencies) == [30, 50]
    assert milliseconds(outcome.models["caller"].waits) == [0, 20]


def test_a_call_that_is_turned_away_fails_the_request_and_releases_its_caller() -> None:
    policy = QueueDiscipline(max_size=1)
    steps = (
        ModelVisit(model="caller"),
        ModelVisit(model="callee", caller=0, after=(0,)),
        ModelVisit(model="last", after=(1,)),
    )
    scenario = Scenario(
        models=(
            model(0.001, name="caller", instances=3),
            model(0.1, name="callee", batcher=DynamicBatcher(policy=policy, overtakes=0.0)),
            model(0.001, name="last"),
        ),
        entries=(EntryGraph(name="e", steps=steps),),
        traffic=(OpenLoop(entry="e", times=(0.0, 0.01, 0.02, 0.03)),),
    )
    outcome = run(scenario)

    # One is executed, one waits, two are refused: the fourth finds the third one's instance free.
    assert (outcome.entries["e"].failed, len(outcome.entries["e"].latencies)) == (2, 2)
    assert milliseconds(outcome.models["caller"].waits) == [0, 0, 0, 0]
    assert len(outcome.models["last"].waits) == 2


def test_a_full_callee_is_what_cannot_keep_up_however_many_call_it() -> None:
    for instances in (2, 12):
        assert not keeps_up(calling((), instances, 0.002, ("callee", 1, CALLEE)), 26.0)
        assert keeps_up(calling((), instances, 0.002, ("callee", 2, CALLEE)), 26.0)


def test_too_few_instances_for_what_they_hold_cannot_keep_up() -> None:
    assert not keeps_up(calling((), 1, 0.04, ("callee", 4, CALLEE)), 15.0)
    assert keeps_up(calling((), 2, 0.04, ("callee", 4, CALLEE)), 15.0)
