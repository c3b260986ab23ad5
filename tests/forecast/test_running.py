"""No scenario, however odd, is simulated without end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.predict import performance
from diagnostics.forecast.running import outcome_of
from diagnostics.tuning.simulation.clock import Endless
from diagnostics.tuning.simulation.scenario import ClosedLoop, Model, OpenLoop, Resource
from diagnostics.tuning.simulation.simulate import simulate
from tests.forecast.deployments import by_hand, service

INSTANT = Model(name="instant", service=replace(service(1e-3), base=1e-9, per_item=0.0, dispatch_gap=0.0))
LOOP = ClosedLoop(entry="chat", clients=2)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.tuning.simulation.clock.MOST_EVENTS", 5_000)


def test_clients_whose_answers_take_no_time_do_not_ask_for_ever() -> None:
    with pytest.raises(Endless, match="more than 5000 events"):
        simulate(by_hand(INSTANT, traffic=LOOP).scenario, seconds=1.0)


def test_years_of_requests_end_at_the_same_number_of_events() -> None:
    with pytest.raises(Endless):
        simulate(by_hand(INSTANT).scenario, seconds=5e11)


def test_executions_that_slow_each_other_do_not_fill_the_memory_with_plans() -> None:
    crowd = Model(name="crowd", service=service(10.0), instances=1024, demand={"gpu": 1.0})
    scenario = by_hand(crowd, traffic=OpenLoop(entry="chat", rate=1e4), resources=(Resource(name="gpu"),)).scenario
    with pytest.raises(Endless):
        simulate(scenario, seconds=1.0)


def test_what_would_not_end_cannot_be_forecast_and_says_what_to_do() -> None:
    fitted = by_hand(INSTANT, traffic=LOOP)
    for ask in (lambda: outcome_of(fitted.scenario, seconds=1.0), lambda: performance(fitted, draws=1)):
        with pytest.raises(Unpredictable, match=r"chat: cannot be forecast: .*events; ask for less load"):
            ask()
