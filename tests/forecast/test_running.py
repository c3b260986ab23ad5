"""No scenario, however odd, is simulated without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Unpredictable, outcome_of
from diagnostics.forecast.predict import performance
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.simulation.clock import Endless
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    QueueDiscipline,
    Resource,
)
from diagnostics.tuning.simulation.simulate import simulate
from diagnostics.tuning.simulation.stability import bounded, loads
from tests.forecast.deployments import by_hand, service

INSTANT = Model(name="instant", service=replace(service(1e-3), base=1e-9, per_item=0.0, dispatch_gap=0.0))
SLOW = Model(name="slow", service=service(0.03))
LOOP = ClosedLoop(entry="chat", clients=2)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.tuning.simulation.clock.MOST_EVENTS", 5_000)


@pytest.mark.usefixtures("few")
def test_clients_whose_answers_take_no_time_do_not_ask_for_ever() -> None:
    with pytest.raises(Endless, match="more than 5000 events"):
        simulate(by_hand(INSTANT, traffic=LOOP).scenario, seconds=1.0)


@pytest.mark.usefixtures("few")
def test_years_of_requests_end_at_the_same_number_of_events() -> None:
    with pytest.raises(Endless):
        simulate(by_hand(INSTANT).scenario, seconds=5e11)


@pytest.mark.usefixtures("few")
def test_executions_that_slow_each_other_do_not_fill_the_memory_with_plans() -> None:
    crowd = Model(name="crowd", service=service(10.0), instances=1024, demand={"gpu": 1.0})
    scenario = by_hand(crowd, traffic=OpenLoop(entry="chat", rate=1e4), resources=(Resource(name="gpu"),)).scenario
    with pytest.raises(Endless):
        simulate(scenario, seconds=1.0)


@pytest.mark.usefixtures("few")
def test_what_would_not_end_cannot_be_forecast_and_says_what_to_do() -> None:
    fitted = by_hand(INSTANT, traffic=LOOP)
    for ask in (lambda: outcome_of(fitted.scenario, seconds=1.0), lambda: performance(fitted, draws=1)):
        with pytest.raises(Unpredictable, match=r"chat: cannot be forecast: .*events; ask for less load"):
            ask()


def test_a_load_beyond_all_measure_is_refused_before_its_arrivals_are_drawn() -> None:
    with pytest.raises(Unpredictable, match="cannot be forecast"):
        performance(by_hand(SLOW), WhatIf(rate_factor=1e9), draws=1)


def test_a_run_is_long_enough_for_each_of_many_clients() -> None:
    reported = performance(by_hand(SLOW, traffic=replace(LOOP, clients=500)), draws=1, visits=400)

    assert reported.mean
    assert reported.mean.value == pytest.approx(500 * 0.03015, rel=0.01)
    assert reported.throughput.value == pytest.approx(1 / 0.03015, rel=0.01)


def test_what_others_turn_away_behind_a_full_stage_is_not_answered() -> None:
    first = Model(name="first", service=service(0.0099, 0.0001), max_batch=8, batcher=DynamicBatcher())
    limited = DynamicBatcher(policy=QueueDiscipline(max_size=4), overtakes=0.0)
    second = Model(name="second", service=service(0.03), batcher=limited)
    reported = performance(by_hand(first, second, traffic=OpenLoop(entry="chat", rate=1_000.0)), draws=1, visits=4_000)

    assert not reported.stable
    assert reported.throughput.value == pytest.approx(1 / 0.03015, rel=0.1)


def test_entries_that_share_a_full_stage_are_answered_by_what_each_asks_of_it() -> None:
    one = by_hand(SLOW, traffic=OpenLoop(entry="chat", rate=20.0))
    side = EntryGraph(name="side", steps=(ModelVisit(model="slow"),))
    scenario = replace(one.scenario, entries=(*one.scenario.entries, side))
    traffic = (*scenario.traffic, OpenLoop(entry="side", rate=30.0))
    shared = replace(one, scenario=replace(scenario, traffic=traffic))

    for reported in (performance(shared, draws=0, visits=4_000), estimate(shared)):
        assert not reported.stable
        assert reported.throughput.value == pytest.approx(0.4 / 0.03015, rel=0.06)


def test_what_a_queue_turns_away_takes_nothing_of_the_device() -> None:
    batcher = DynamicBatcher(policy=QueueDiscipline(max_size=4), overtakes=0.0)
    shedding = replace(SLOW, batcher=batcher, demand={"gpu": 0.6})
    scenario = by_hand(shedding, traffic=OpenLoop(entry="chat", rate=100.0), resources=(Resource(name="gpu"),)).scenario

    assert loads(scenario, 10.0)["resource gpu"] == pytest.approx(0.6, rel=0.02)
    assert bounded(scenario, 10.0)
