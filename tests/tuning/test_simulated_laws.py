"""What holds in every simulation: Little's law, conservation, reproducibility, and the closed forms of queueing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.tuning.simulation.draws import arrivals
from diagnostics.tuning.simulation.scenario import (
    DynamicBatcher,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    QueueDiscipline,
    Resource,
    Scenario,
    TimeoutAction,
)
from diagnostics.tuning.simulation.simulate import simulate
from diagnostics.tuning.waiting import Bulk, bulk_wait, waiting_seconds
from tests.tuning.simulated import ENGINES, alone, mean, model, queue, replayed, run

_POLICIES = st.none() | st.builds(
    QueueDiscipline,
    max_size=st.sampled_from([0, 1, 5]),
    timeout_seconds=st.sampled_from([0.0, 0.003, 0.02]),
    action=st.sampled_from(TimeoutAction),
)
_BATCHERS = st.builds(
    DynamicBatcher,
    delay_seconds=st.sampled_from([0.0, 0.0005, 0.005]),
    preferred=st.sampled_from([(), (2,), (2, 4)]),
    preserve_ordering=st.booleans(),
    policy=_POLICIES,
    priority_levels=st.sampled_from([0, 2]),
    overtakes=st.sampled_from([0.0, 0.3, 1.0]),
)
_MODELS = st.builds(
    lambda seconds, per_item, engine, limited, **settings: replace(
        model(seconds, per_item=per_item * seconds, gap=0.0001, **settings),
        engine=engine,
        rate_limit={"slot": 1} if limited else {},
    ),
    st.sampled_from([0.002, 0.01]),
    st.sampled_from([0.0, 0.8]),
    st.none() | ENGINES,
    st.booleans(),
    service_scv=st.sampled_from([0.0, 0.05, 1.0]),
    instances=st.integers(1, 3),
    in_flight=st.integers(1, 2),
    max_batch=st.sampled_from([4, 8]),
    batcher=st.none() | _BATCHERS,
    start_seconds=st.sampled_from([0.0, 0.0002]),
    demand=st.sampled_from([{}, {"gpu": 0.7}]),
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Draw three models in a graph of four steps, one of them visited twice, and three seconds of requests."""
    models = tuple(replace(draw(_MODELS), name=name) for name in "abc")
    joined = draw(st.booleans())
    steps = (
        ModelVisit(model="a", gap_seconds=draw(st.sampled_from([0.0, 0.0003]))),
        ModelVisit(model="b", after=(0,), tail_seconds=draw(st.sampled_from([0.0, 0.004]))),
        ModelVisit(model="c", after=(0,) if joined else (1,)),
        ModelVisit(model="a", after=(1, 2) if joined else (2,)),
    )
    rng = Random(draw(st.integers(0, 1000)))
    traffic = tuple(
        OpenLoop(entry="e", times=sorted(rng.uniform(0, 0.5) for _ in range(20)), items=items, priority=items)
        for items in (1, 2)
    )
    return Scenario(
        models=models,
        entries=(EntryGraph(name="e", steps=steps),),
        traffic=traffic,
        resources=(Resource(name="gpu"),),
        rate_limits={"slot": 2},
    )


@settings(max_examples=40, deadline=None)
@given(scenarios())
def test_littles_law_and_conservation_hold_in_whatever_is_simulated(scenario: Scenario) -> None:
    outcome = simulate(scenario, seconds=60.0, seed=1)
    entry = outcome.entries["e"]

    assert entry.arrived == 40 == len(entry.latencies) + entry.failed
    for each in outcome.models.values():
        # A refused request waits too, until it is refused.
        assert each.arrived == len(each.waits) + each.refused
        assert each.queue_length * 60 >= sum(each.waits) - 1e-9
        if not each.refused:
            assert each.queue_length * 60 == pytest.approx(sum(each.waits), abs=1e-9)
        assert min(each.waits, default=0.0) >= 0
        assert len(each.service) == len(each.waits)
    if not entry.failed:
        assert entry.in_system * 60 == pytest.approx(sum(entry.latencies))


@settings(max_examples=5, deadline=None)
@given(scenarios(), st.integers(0, 5))
def test_a_seed_gives_one_outcome(scenario: Scenario, seed: int) -> None:
    assert simulate(scenario, seconds=5.0, seed=seed) == simulate(scenario, seconds=5.0, seed=seed)


@settings(max_examples=10, deadline=None)
@given(_BATCHERS, st.lists(st.sampled_from([1, 2, 4]), min_size=10, max_size=30))
def test_one_request_is_batched_as_several_are(batcher: DynamicBatcher, items: list[int]) -> None:
    scenario = replayed(model(0.004, max_batch=4, batcher=batcher), [2.0 * k for k in range(len(items))], items=items)
    short = simulate(scenario, seconds=5.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("diagnostics.tuning.simulation.forming.is_plain", lambda _: False)
        assert simulate(scenario, seconds=5.0) == short


@settings(max_examples=12, deadline=None)
@given(_MODELS, st.integers(0, 100), st.sampled_from([50.0, 150.0]))
def test_more_instances_never_lengthen_the_queue_of_a_model_that_shares_nothing(
    drawn: Model, seed: int, rate: float
) -> None:
    base = replace(drawn, engine=None, demand={}, rate_limit={}, in_flight=1, batcher=None)
    queues = [
        run(alone(replace(base, instances=count), OpenLoop(entry="m", rate=rate)), seed=seed).models["m"].queue_length
        for count in (1, 2, 3)
    ]
    assert all(more <= fewer + 1e-12 for fewer, more in pairwise(queues))


@pytest.mark.parametrize("delay", [0.0, 0.001])
def test_more_instances_never_lengthen_the_queue_of_a_batcher(delay: float) -> None:
    base = model(0.01, max_batch=8, per_item=0.001, service_scv=0.05, batcher=DynamicBatcher(delay_seconds=delay))
    queues = [
        queue(run(alone(replace(base, instances=count), OpenLoop(entry="m", rate=150)), seconds=5.0).models["m"])
        for count in (1, 2, 3, 4)
    ]
    # With an instance idle, requests wait for the window and no longer.
    assert all(more <= max(fewer, delay) for fewer, more in pairwise(queues))


def test_the_law_holds_over_a_window_of_a_queue_in_steady_state() -> None:
    outcome = simulate(
        alone(model(0.01, service_scv=1.0), OpenLoop(entry="m", rate=60)), seconds=50.0, warmup_seconds=5.0
    )
    entry, each = outcome.entries["m"], outcome.models["m"]

    assert entry.in_system == pytest.approx(entry.arrived / 50 * mean(entry.latencies), rel=0.01)
    assert each.queue_length == pytest.approx(each.arrived / 50 * queue(each), rel=0.01)
    assert each.busy_share == pytest.approx(each.executions / 50 * mean(each.service), rel=0.01)


@pytest.mark.parametrize(
    ("instances", "service_scv", "arrival_scv", "known"),
    [
        # M/M/1, M/D/1, M/M/3 and M/G/1 are exact; Allen and Cunneen give M/D/3 and H2/M/1 to about a tenth.
        (1, 1.0, 1.0, 0.0),
        (1, 0.0, 1.0, 0.0),
        (3, 1.0, 1.0, 0.0),
        (1, 0.05, 1.0, 0.0),
        (3, 0.0, 1.0, 0.1),
        (1, 1.0, 3.0, 0.1),
    ],
)
def test_a_simulated_queue_waits_as_long_as_its_closed_form_says(
    instances: int, service_scv: float, arrival_scv: float, known: float
) -> None:
    rate = 0.5 * instances / 0.01
    seconds = 10_000 / rate
    stage = model(0.01, instances=instances, service_scv=service_scv)
    outcome = run(alone(stage, OpenLoop(entry="m", rate=rate, scv=arrival_scv)), seconds=seconds)

    expected = waiting_seconds(
        rate=rate, service=0.01, servers=instances, arrival_scv=arrival_scv, service_scv=service_scv
    )
    # A window holds seconds / (2 * relaxation time) independent waits, each about twice its mean off, as half of the
    # requests do not wait; three standard errors.
    relaxation = (arrival_scv + service_scv) * 0.01 / instances / 0.5**2
    error = known + 3 * 2 * sqrt(2 * relaxation / seconds)
    assert error < 0.5
    assert queue(outcome.models["m"]) == pytest.approx(expected, rel=error)


@pytest.mark.parametrize(("rate", "per_item"), [(100.0, 0.0), (250.0, 0.0005), (400.0, 0.001)])
def test_a_simulated_bulk_queue_waits_as_long_as_its_closed_form_says(rate: float, per_item: float) -> None:
    stage = model(0.01, per_item=per_item, max_batch=16, batcher=DynamicBatcher())
    bulk = Bulk(
        rate=rate,
        occupancy=stage.service.occupancy,
        instances=1,
        max_batch=16,
        window=0.0,
        fire=16,
        arrival_scv=1.0,
        service_scv=0.0,
    )
    expected = bulk_wait(bulk)
    outcome = run(alone(stage, OpenLoop(entry="m", rate=rate)), seconds=6_000 / rate).models["m"]

    assert expected is not None
    assert queue(outcome) == pytest.approx(expected.late, rel=0.1)
    assert outcome.batch_size_mean == pytest.approx(expected.size, rel=0.05)


@pytest.mark.parametrize("scv", [0.0, 0.3, 1.0, 4.0])
def test_intervals_have_the_rate_and_the_variability_requested(scv: float) -> None:
    process = arrivals(OpenLoop(entry="m", rate=50.0, scv=scv), Random(7))
    times = [next(process) for _ in range(10_000)]
    gaps = [after - before for before, after in pairwise(times)]

    assert mean(gaps) == pytest.approx(0.02, rel=0.03)
    assert mean([(gap / 0.02 - 1) ** 2 for gap in gaps]) == pytest.approx(scv, rel=0.12, abs=1e-9)


def test_nobody_comes_where_there_is_no_rate() -> None:
    outcome = run(alone(model(0.01), OpenLoop(entry="m")))
    assert outcome.entries["m"].arrived == outcome.models["m"].executions == 0
    assert outcome.models["m"].batch_size_mean is None
    assert outcome.stable
