"""Rows of models without batches, one event for each visit, against the schedulers' events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.tuning.simulation.draws import stream
from diagnostics.tuning.simulation.rows import holds_rows
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EntryGraph,
    Model,
    ModelVisit,
    OpenLoop,
    Resource,
    Scenario,
)
from diagnostics.tuning.simulation.simulate import simulate
from tests.bench.simpy_clients import Clients
from tests.tuning.simulated import assert_one_outcome, mean, model

_MODELS = st.builds(
    lambda seconds, **rest: model(seconds, gap=0.00015, **rest),
    st.sampled_from([0.0023, 0.0101]),
    service_scv=st.sampled_from([0.0, 0.05, 1.0]),
    instances=st.integers(1, 3),
    start_seconds=st.sampled_from([0.0, 0.0002]),
)
_GAPS = st.sampled_from([0.0, 0.00031])
_CLIENTS = st.builds(
    ClosedLoop, entry=st.just(""), clients=st.integers(1, 6), think_seconds=st.sampled_from([0.003, 0.1])
)


@st.composite
def _scenarios(draw: st.DrawFn) -> Scenario:
    """Draw two rows that share a model, one of which visits it twice, and clients of both kinds."""
    models = tuple(replace(draw(_MODELS), name=name) for name in "abc")
    there = (
        ModelVisit(model="a", gap_seconds=draw(_GAPS)),
        ModelVisit(model="b", after=(0,), gap_seconds=draw(_GAPS), tail_seconds=draw(_GAPS)),
        ModelVisit(model="a", after=(1,), tail_seconds=draw(_GAPS)),
    )
    back = (ModelVisit(model="b"), ModelVisit(model="c", after=(0,)))
    return Scenario(
        models=models,
        entries=(EntryGraph(name="there", steps=there), EntryGraph(name="back", steps=back)),
        traffic=(
            ClosedLoop(
                entry="there", clients=draw(st.integers(1, 6)), think_seconds=draw(st.sampled_from([0.003, 0.1]))
            ),
            OpenLoop(entry="back", rate=draw(st.sampled_from([0.0, 40.0]))),
        ),
    )


@settings(max_examples=100, deadline=None)
@given(_scenarios(), st.integers(0, 1000))
def test_a_row_gives_each_request_the_times_that_schedulers_give_it(scenario: Scenario, seed: int) -> None:
    assert holds_rows(scenario)
    assert_one_outcome(scenario, seed=seed)


def test_clients_that_wait_get_their_answers_as_simpy_has_it() -> None:
    seconds = (0.004, 0.008, 0.002)
    row = tuple(ModelVisit(model=str(at), after=(at - 1,) if at else ()) for at in range(len(seconds)))
    scenario = Scenario(
        models=tuple(model(each, name=str(at), gap=0.00015) for at, each in enumerate(seconds)),
        entries=(EntryGraph(name="e", steps=row),),
        traffic=(ClosedLoop(entry="e", clients=5, think_seconds=0.02),),
    )
    theirs = Clients(5, 0.02, seconds, 0.00015, stream(0, "traffic 0")).run(20.0)
    ours = simulate(scenario, seconds=20.0).entries["e"]
    assert ours.latencies == pytest.approx(theirs.latencies)
    assert mean(ours.latencies) > sum(seconds)


def _alone(one: Model, *traffic: ClosedLoop, **more: object) -> Scenario:
    entry = EntryGraph(name="m", steps=(ModelVisit(model="m"),))
    return replace(Scenario(models=(one,), entries=(entry,), traffic=traffic), **more)


@pytest.mark.parametrize(
    "scenario",
    [
        _alone(model(batcher=DynamicBatcher())),
        _alone(model(in_flight=2)),
        _alone(model(rate_limit={"slot": 1})),
        _alone(model(instances=2, demand={"gpu": 0.7}), resources=(Resource(name="gpu"),)),
        _alone(model(), entries=(EntryGraph(name="m", steps=(ModelVisit(model="m", tail_scv=0.1),)),)),
        _alone(model(), entries=(EntryGraph(name="m", steps=(ModelVisit(model="m"), ModelVisit(model="m"))),)),
    ],
    ids=["batches", "two in flight", "a rate limit", "a shared device", "a tail by chance", "branches"],
)
def test_other_models_are_no_row(scenario: Scenario) -> None:
    assert not holds_rows(scenario)
    assert holds_rows(_alone(model()))
