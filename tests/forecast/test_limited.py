"""Queues with a limit, by formulas and simulated, where no wake-up is lost."""

from __future__ import annotations

from dataclasses import replace
from math import factorial

import pytest

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.performance import Performance
from diagnostics.forecast.predict import performance
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    Model,
    OpenLoop,
    QueueDiscipline,
    Resource,
    TimeoutAction,
)
from diagnostics.tuning.waiting import OfferedLoad, erlang_b, few_places, short_patience, waiting_seconds
from tests.forecast.contradictions import contradictions
from tests.forecast.deployments import by_hand, service

SAFETY = Model(name="safety", service=service(0.03))
BATCHING = Model(name="safety", service=service(0.02, 0.002), max_batch=8)


def load(rate: float, servers: int, service_scv: float = 1.0) -> OfferedLoad:
    seconds = 0.03
    return OfferedLoad(
        share=rate * seconds / servers,
        all_busy=erlang_b(servers, rate * seconds),
        drain=seconds / servers,
        arrival_scv=1.0,
        service_scv=service_scv,
    )


def limited(model: Model, rate: float, **policy: float) -> tuple[Performance, Performance]:
    """Return what formulas and the simulation say of a model under a queue policy."""
    batcher = DynamicBatcher(policy=QueueDiscipline(**policy), overtakes=0.0)  # type: ignore[arg-type]
    fitted = by_hand(replace(model, batcher=batcher), traffic=OpenLoop(entry="chat", rate=rate))
    return estimate(fitted), performance(fitted, draws=0, visits=4_000)


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("rate", [20.0, 100 / 3, 100.0, 150.0])
@pytest.mark.parametrize("places", [1, 6])
def test_what_mmck_loses_is_exact_below_and_above_full_load(servers: int, rate: float, places: int) -> None:
    erlangs = rate * 0.03
    idle = sum(erlangs**n / factorial(n) for n in range(servers))
    full = [erlangs**servers / factorial(servers) * (erlangs / servers) ** n for n in range(places + 1)]

    assert few_places(load(rate, servers), places).lost == pytest.approx(full[-1] / (idle + sum(full)), rel=1e-6)


def test_a_limit_that_is_never_reached_leaves_the_wait_of_an_unlimited_queue() -> None:
    exact = waiting_seconds(rate=20.0, service=0.03, servers=1, arrival_scv=1.0, service_scv=0.3)

    for kept in (few_places(load(20.0, 1, 0.3), 1e4), short_patience(load(20.0, 1, 0.3), 1e3)):
        assert kept.lost == 0.0
        assert kept.wait == pytest.approx(exact)


@pytest.mark.parametrize("policy", [{"max_size": 1}, {"max_size": 8}, {"timeout_seconds": 0.1}])
@pytest.mark.parametrize("rate", [30.0, 50.0])
def test_a_limited_queue_turns_away_as_much_by_formulas_as_simulated(policy: dict[str, float], rate: float) -> None:
    quick, reported = limited(SAFETY, rate, **policy)

    assert quick.stable
    assert quick.throughput.value + quick.rejected == pytest.approx(rate)
    assert quick.stages[0].refused_per_second == pytest.approx(quick.rejected)
    assert quick.throughput.value == pytest.approx(reported.throughput.value, rel=0.04)
    assert quick.mean
    assert reported.mean
    assert quick.mean.value == pytest.approx(reported.mean.value, rel=0.1)


@pytest.mark.parametrize("policy", [{"max_size": 4}, {"max_size": 32}, {"timeout_seconds": 0.02}])
@pytest.mark.parametrize("rate", [150.0, 330.0])
def test_batches_lose_what_comes_while_they_are_executed(policy: dict[str, float], rate: float) -> None:
    quick, reported = limited(BATCHING, rate, **policy)

    assert quick.throughput.value == pytest.approx(reported.throughput.value, rel=0.06)
    assert quick.mean
    assert reported.mean
    assert quick.mean.value == pytest.approx(reported.mean.value, rel=0.1)


def test_what_a_stage_turns_away_does_not_reach_the_next_one() -> None:
    first = replace(SAFETY, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=2)))
    second = Model(name="loop", service=service(0.028))
    reported = estimate(by_hand(first, second, traffic=OpenLoop(entry="chat", rate=60.0)))

    assert reported.stable
    assert reported.stages[1].busy_share.value == pytest.approx(reported.throughput.value * 0.02815, rel=0.01)


def test_a_timeout_that_only_delays_turns_nobody_away() -> None:
    policy = QueueDiscipline(timeout_seconds=0.01, action=TimeoutAction.DELAY)
    reported = estimate(by_hand(replace(SAFETY, batcher=DynamicBatcher(policy=policy))))

    assert reported.rejected == 0.0
    assert reported.throughput.value == pytest.approx(20.0)


def test_clients_in_a_closed_loop_that_all_have_a_place_are_never_turned_away() -> None:
    few = by_hand(
        replace(SAFETY, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=4))),
        traffic=ClosedLoop(entry="chat", clients=5),
    )
    reported = estimate(few)

    assert reported.rejected == 0.0
    assert reported == estimate(
        by_hand(replace(SAFETY, batcher=DynamicBatcher()), traffic=ClosedLoop(entry="chat", clients=5))
    )


def test_a_queue_that_is_always_full_answers_no_more_than_is_executed_however_short_the_run() -> None:
    _, reported = limited(SAFETY, 3_000.0, max_size=20)

    assert reported.throughput.value <= 1.05 / 0.03015


def test_a_full_stage_passes_on_what_it_can_do_and_those_behind_it_keep_up() -> None:
    first, second = Model(name="first", service=service(0.05)), Model(name="second", service=service(0.03))
    fitted = by_hand(first, second, traffic=OpenLoop(entry="chat", rate=100.0))

    for reported in (estimate(fitted), performance(fitted, draws=0, visits=3_000)):
        assert [one.stable for one in reported.stages] == [False, True]
        assert reported.throughput.value == pytest.approx(1 / 0.05015, rel=0.03)
        assert reported.stages[1].busy_share.value == pytest.approx(0.03015 / 0.05015, rel=0.05)


def test_what_is_turned_away_behind_a_full_stage_is_not_answered_in_a_run_too_short_to_show_it() -> None:
    patient = replace(SAFETY, batcher=DynamicBatcher(policy=QueueDiscipline(timeout_seconds=5.0), overtakes=0.0))
    fitted = by_hand(Model(name="first", service=service(0.01)), patient, traffic=OpenLoop(entry="chat", rate=1_000.0))
    reported = performance(fitted, draws=0, visits=1_000)

    assert reported.throughput.value == pytest.approx(1 / 0.03015, rel=0.1)


def test_more_load_is_never_answered_less_of_it() -> None:
    full = Model(name="first", service=service(0.02))
    limited_one = replace(SAFETY, instances=2, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=3)))
    fitted = by_hand(full, limited_one, traffic=OpenLoop(entry="chat", rate=30.0))

    assert list(contradictions(fitted)) == []


def test_what_is_turned_away_leaves_room_on_what_stages_share() -> None:
    """A load that would take all of a card, if it were executed, is turned away in part: the rest does not get slow."""
    policy = QueueDiscipline(timeout_seconds=0.001)
    models = (
        Model(name="safety", service=service(0.08), instances=6, batcher=DynamicBatcher(policy=policy)),
        Model(name="side", service=service(0.002), instances=4),
    )
    shared = tuple(replace(one, demand={"gpu": 0.5}) for one in models)
    fitted = by_hand(
        *shared, traffic=OpenLoop(entry="chat", rate=50.0), resources=(Resource(name="gpu", capacity=1.5),)
    )

    assert list(contradictions(fitted)) == []


@pytest.mark.parametrize("places", [5, 50])
def test_a_full_stage_that_turns_requests_away_answers_what_its_share_of_a_card_lets_it(places: int) -> None:
    """Four instances that want half a card each get two instances' work done, however much is turned away."""
    queue = DynamicBatcher(policy=QueueDiscipline(max_size=places))
    model = replace(SAFETY, instances=4, demand={"gpu": 0.5}, batcher=queue)
    fitted = by_hand(model, traffic=OpenLoop(entry="chat", rate=300.0), resources=(Resource(name="gpu", capacity=1.0),))

    assert estimate(fitted).throughput.value == pytest.approx(2 / 0.03015, rel=0.03)
    assert performance(fitted, draws=0, visits=3_000).throughput.value == pytest.approx(2 / 0.03015, rel=0.03)
