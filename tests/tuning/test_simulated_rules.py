"""Instances, shared resources, the rate limiter, engines and graphs, each as a trace worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.errors import UsageError
from diagnostics.tuning.simulation.observing import SimulationResult
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EngineModel,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    QueueDiscipline,
    Resource,
    Scenario,
)
from tests.tuning.simulated import alone, mean, milliseconds, model, replayed, run, service, waits


def latencies(scenario: Scenario, entry: str = "m") -> list[float]:
    return milliseconds(run(scenario).entries[entry].latencies)


def test_an_execution_holds_its_instance_for_the_dispatch_gap_after_its_response() -> None:
    outcome = run(replayed(model(0.01, gap=0.001), [0, 2]))

    assert milliseconds(outcome.models["m"].waits) == [0, 9]
    assert milliseconds(outcome.entries["m"].latencies) == [10, 19]
    assert outcome.models["m"].busy_share * 2e3 == pytest.approx(22)


def test_requests_are_taken_in_the_order_of_arrival_by_the_instance_that_is_free_first() -> None:
    assert waits(replayed(model(0.01, instances=2), [0, 4, 5, 6])) == [0, 0, 5, 8]


def test_an_idle_instance_takes_its_time_to_start() -> None:
    assert waits(replayed(model(0.01, start_seconds=0.0002), [0, 1])) == [0.2, 9.2]


def test_a_client_batch_is_executed_whole_without_a_batcher() -> None:
    assert latencies(replayed(model(0.01, per_item=0.01), [0, 1], items=[3, 1])) == [30, 39]


def test_overlapping_executions_leave_the_queue_but_compute_one_after_the_other() -> None:
    outcome = run(replayed(model(0.01, in_flight=2), [0, 1, 2]))

    assert milliseconds(outcome.models["m"].waits) == [0, 0, 8]
    assert milliseconds(outcome.models["m"].service) == [10, 19, 20]
    assert milliseconds(outcome.entries["m"].latencies) == [10, 19, 28]
    assert outcome.models["m"].busy_share * 2e3 == pytest.approx(30)


GPU = Resource(name="gpu")


def test_executions_slow_each_other_where_a_resource_is_full() -> None:
    scenario = replayed(model(0.01, instances=2, demand={"gpu": 1.0}), [0, 5], resources=(GPU,))

    # 5 ms of work are left at 5; at half speed they take until 15, when half of the second's work is left.
    assert latencies(scenario) == [15, 15]
    assert milliseconds(run(scenario).models["m"].service) == [15, 15]


def test_executions_do_not_slow_each_other_where_a_resource_has_room() -> None:
    shared = model(0.01, instances=2, demand={"gpu": 0.5})
    assert latencies(replayed(shared, [0, 5], resources=(GPU,))) == [10, 10]


def test_executions_slow_each_other_only_on_the_device_that_they_are_on() -> None:
    scenario = replayed(
        model(0.01, instances=4, demand={"gpu": 1.0}),
        [0, 0, 4],
        resources=(Resource(name="gpu", capacity=2.0, devices=2),),
    )

    # The third shares the first's device: of that, 6 ms are left at 4 and take until 16; the third has 4 ms left then.
    assert sorted(latencies(scenario)) == [10, 16, 16]


def test_the_scarcest_resource_sets_the_speed() -> None:
    shared = model(0.01, instances=2, demand={"gpu": 1.0, "cpu": 1.0})
    scenario = replayed(shared, [0, 0], resources=(GPU, Resource(name="cpu", capacity=0.5)))
    assert latencies(scenario) == [40, 40]


def test_the_rate_limiter_lets_only_what_its_resources_allow_execute() -> None:
    limited = model(0.01, instances=2, rate_limit={"slot": 2})
    assert waits(replayed(limited, [0, 1], rate_limits={"slot": 3})) == [0, 9]
    assert waits(replayed(limited, [0, 1], rate_limits={"slot": 4})) == [0, 0]


def test_what_needs_much_of_the_rate_limiter_holds_up_those_behind_it() -> None:
    large, small = model(0.01, name="large", rate_limit={"slot": 2}), model(0.01, name="small", rate_limit={"slot": 1})
    entries = tuple(EntryGraph(name=each.name, steps=(ModelVisit(model=each.name),)) for each in (large, small))
    traffic = tuple(OpenLoop(entry=name, times=times) for name, times in (("small", (0.0, 0.002)), ("large", (0.001,))))
    two = replace(small, instances=2)
    outcome = run(Scenario(models=(large, two), entries=entries, traffic=traffic, rate_limits={"slot": 2}))

    assert milliseconds(outcome.models["large"].waits) == [9]
    assert milliseconds(outcome.models["small"].waits) == [0, 18]


def test_the_rate_limiter_prefers_the_instance_that_executed_least() -> None:
    busy, rare = (model(0.01, name=name, rate_limit={"slot": 1}) for name in ("busy", "rare"))
    entries = tuple(EntryGraph(name=each.name, steps=(ModelVisit(model=each.name),)) for each in (busy, rare))
    traffic = (OpenLoop(entry="busy", times=(0.0, 0.001, 0.012)), OpenLoop(entry="rare", times=(0.015,)))
    outcome = run(Scenario(models=(busy, rare), entries=entries, traffic=traffic, rate_limits={"slot": 1}))

    # Both wait at 20, one after two executions, the other after none.
    assert milliseconds(outcome.models["busy"].waits + outcome.models["rare"].waits) == [0, 9, 18, 5]


def test_the_rate_limiter_lets_a_waiting_payload_grow() -> None:
    limited = model(0.01, batcher=DynamicBatcher(), max_batch=8, rate_limit={"slot": 1})
    assert waits(replayed(limited, [0, 1, 5], rate_limits={"slot": 1})) == [0, 9, 5]


ENGINE = EngineModel(slots=2, prefill_seconds=0.001, iteration_seconds=0.01, iterations=3)


def engine(**settings: object) -> Model:
    return Model(name="m", service=service(1.0), engine=replace(ENGINE, **settings))  # type: ignore[arg-type]


def test_requests_join_an_engine_between_iterations() -> None:
    # Iterations end at 11 and, with the second request, at 22, 32 and 42.
    outcome = run(replayed(engine(), [0, 2]))

    assert milliseconds(outcome.models["m"].waits) == [0, 9]
    assert milliseconds(outcome.entries["m"].latencies) == [32, 40]
    assert (outcome.models["m"].executions, outcome.models["m"].items) == (4, 6)
    assert outcome.models["m"].busy_share * 2e3 == pytest.approx(42)


def test_a_request_waits_for_a_slot_of_the_engine() -> None:
    # 1 and 2 join at 11 and 2 finds both slots taken until 32.
    assert waits(replayed(engine(), [0, 1, 2])) == [0, 10, 30]


def test_each_running_request_lengthens_an_iteration() -> None:
    # The first begins alone: 11, and two of 12 with the second, which ends alone.
    growing = engine(iteration_seconds_per_request=0.001, prefill_seconds=0.0)
    assert latencies(replayed(growing, [0, 1])) == [11 + 12 + 12, 11 + 12 + 12 + 11 - 1]


def test_the_engine_reserves_the_cache_for_the_whole_request() -> None:
    assert waits(replayed(engine(tokens_per_request=100, cache_tokens=199), [0, 2])) == [0, 29]
    assert waits(replayed(engine(tokens_per_request=100, cache_tokens=200), [0, 2])) == [0, 9]


def test_the_token_budget_bounds_who_joins_in_one_iteration() -> None:
    # The first joins alone; of those that wait at 11 one joins then, and the other an iteration later.
    small = engine(slots=3, prefill_tokens=10, token_budget=12)
    assert waits(replayed(small, [0, 1, 1])) == [0, 10, 21]


def test_running_requests_take_their_share_of_the_token_budget() -> None:
    assert waits(replayed(engine(prefill_tokens=10, token_budget=10), [0, 1])) == [0, 30]


def test_a_static_batch_ends_before_the_next_one_begins() -> None:
    # The second and third wait for the end of the first's batch at 31, and run together.
    assert waits(replayed(engine(continuous=False), [0, 1, 2])) == [0, 30, 29]


def chain(*steps: ModelVisit, seconds: float = 0.01) -> Scenario:
    names = {step.model for step in steps}
    return Scenario(
        models=tuple(model(seconds * position, name=name) for position, name in enumerate(sorted(names), start=1)),
        entries=(EntryGraph(name="e", steps=steps),),
        traffic=(OpenLoop(entry="e", times=(0.0,)),),
    )


def test_parallel_branches_are_joined_by_the_slowest() -> None:
    forked = chain(
        ModelVisit(model="a"),
        ModelVisit(model="b", after=(0,)),
        ModelVisit(model="c", after=(0,)),
        ModelVisit(model="d", after=(1, 2)),
    )
    assert latencies(forked, "e") == [10 + 30 + 40]


def test_an_answer_needs_all_ends_of_the_graph() -> None:
    assert latencies(chain(ModelVisit(model="a"), ModelVisit(model="b"), ModelVisit(model="c", after=(0,))), "e") == [
        10 + 30
    ]


def test_gaps_and_tails_pass_outside_the_queue() -> None:
    outcome = run(
        chain(ModelVisit(model="a", gap_seconds=0.001, tail_seconds=0.002), ModelVisit(model="b", after=(0,)))
    )
    assert milliseconds(outcome.entries["e"].latencies) == [10 + 1 + 2 + 20]
    assert milliseconds(outcome.models["a"].waits + outcome.models["b"].waits) == [0, 0]


def test_a_tail_varies_as_it_should() -> None:
    tailed = replace(
        chain(ModelVisit(model="a", tail_seconds=0.02, tail_scv=0.5)), traffic=(OpenLoop(entry="e", rate=20.0),)
    )
    tails = [latency - 0.01 for latency in run(tailed, seconds=100.0).entries["e"].latencies]
    assert min(tails) > 0
    # Of 2,000 requests; what they queue for 10 ms at 20/s adds 1.3 ms to the mean.
    assert mean(tails) == pytest.approx(0.0213, rel=0.1)
    assert mean([(tail / 0.02 - 1) ** 2 for tail in tails]) == pytest.approx(0.5, rel=0.25)


def test_a_request_that_one_stage_refuses_fails_as_a_whole() -> None:
    scenario = chain(
        ModelVisit(model="a"),
        ModelVisit(model="b"),
        ModelVisit(model="c", after=(0, 1)),
        ModelVisit(model="d", after=(1,)),
    )
    refusing = replace(scenario.models[0], batcher=DynamicBatcher(policy=QueueDiscipline(max_size=1)), instances=1)
    outcome = run(
        replace(
            scenario,
            models=(refusing, *scenario.models[1:]),
            traffic=tuple(OpenLoop(entry="e", times=(0.001 * k,)) for k in range(3)),
        )
    )
    assert (outcome.entries["e"].arrived, outcome.entries["e"].failed, len(outcome.entries["e"].latencies)) == (3, 1, 2)
    assert len(outcome.models["b"].waits) == 3
    # What runs for it already runs on, but nothing follows.
    assert len(outcome.models["c"].waits) == len(outcome.models["d"].waits) == 2


def test_closed_clients_ask_again_when_they_were_answered() -> None:
    outcome = run(alone(model(0.01), ClosedLoop(entry="m", clients=2)), seconds=1.0)  # type: ignore[arg-type]
    assert outcome.entries["m"].in_system == pytest.approx(2)
    assert milliseconds(outcome.entries["m"].latencies[:4]) == [10, 20, 20, 20]


def test_a_refused_closed_client_asks_again_after_a_round_trip() -> None:
    limited = model(0.01, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=1), overtakes=0.0))
    outcome = run(alone(limited, ClosedLoop(entry="m", clients=3)), seconds=0.0995)  # type: ignore[arg-type]
    # The third is refused every millisecond that it does not win the place in the queue.
    assert outcome.entries["m"].failed >= 80
    assert len(outcome.entries["m"].latencies) == 9


def over(outcome: SimulationResult) -> bool:
    return not outcome.stable


@pytest.mark.parametrize(
    ("scenario", "overloaded"),
    [
        (alone(model(0.01), OpenLoop(entry="m", rate=101)), True),
        (alone(model(0.01), OpenLoop(entry="m", rate=95)), False),
        (alone(model(0.01, instances=2), OpenLoop(entry="m", rate=190)), False),
        (alone(model(0.01, max_batch=4, batcher=DynamicBatcher()), OpenLoop(entry="m", rate=395)), False),
        (alone(model(0.01, max_batch=4, batcher=DynamicBatcher()), OpenLoop(entry="m", rate=401)), True),
        (
            alone(
                model(0.01, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=4))), OpenLoop(entry="m", rate=200)
            ),
            False,
        ),
        (alone(model(0.01, instances=3, demand={"gpu": 0.5}), OpenLoop(entry="m", rate=201), resources=(GPU,)), True),
        (alone(model(0.01, instances=3, demand={"gpu": 0.5}), OpenLoop(entry="m", rate=190), resources=(GPU,)), False),
        (
            alone(model(0.01, instances=3, rate_limit={"r": 1}), OpenLoop(entry="m", rate=101), rate_limits={"r": 1}),
            True,
        ),
        (alone(model(0.01), OpenLoop(entry="m", times=[0.0099 * k for k in range(505)])), False),
        (alone(model(0.01), OpenLoop(entry="m", times=[0.008 * k for k in range(625)])), True),
        (alone(engine(), OpenLoop(entry="m", rate=2 / 0.032 * 1.01)), True),
        (alone(engine(), OpenLoop(entry="m", rate=2 / 0.032 * 0.9)), False),
        (alone(model(0.01), ClosedLoop(entry="m", clients=50)), False),  # type: ignore[arg-type]
    ],
)
def test_a_run_is_unstable_where_more_is_requested_than_can_be_done(scenario: Scenario, overloaded: bool) -> None:
    assert over(run(scenario, seconds=5.0)) == overloaded


def test_growth_that_no_capacity_explains_is_seen() -> None:
    # One at a time for want of company: the window keeps the instances idle.
    slow = model(0.01, max_batch=8, batcher=DynamicBatcher(delay_seconds=0.0, preferred=(1,)))
    assert over(run(alone(slow, OpenLoop(entry="m", rate=200)), seconds=5.0))


@pytest.mark.parametrize(
    ("scenario", "seconds", "stated"),
    [
        (alone(model(0.01), OpenLoop(entry="m", rate=1)), 0.0, "0 seconds"),
        (alone(model(0.01), OpenLoop(entry="n", rate=1)), 1.0, "lacks n"),
        (replace(chain(ModelVisit(model="a")), models=()), 1.0, "lacks a"),
    ],
)
def test_what_cannot_be_simulated_is_stated(scenario: Scenario, seconds: float, stated: str) -> None:
    with pytest.raises(UsageError, match=stated):
        run(scenario, seconds=seconds)
