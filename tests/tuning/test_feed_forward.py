"""Models simulated one after the other, against the same models simulated together, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.tuning.simulation.feed_forward import in_order
from diagnostics.tuning.simulation.recursions import executed
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
from tests.tuning.simulated import ENGINES, alone, assert_one_outcome, model

# No two of these times are multiples of one another: what happens at one instant has no order of its own.
_PLAIN_BATCHERS = st.builds(
    DynamicBatcher,
    delay_seconds=st.sampled_from([0.0, 0.00053, 0.0041, 0.0297]),
    preserve_ordering=st.booleans(),
    overtakes=st.sampled_from([0.0, 0.3, 1.0]),
)
_BATCHERS = _PLAIN_BATCHERS | st.builds(
    DynamicBatcher,
    delay_seconds=st.sampled_from([0.0, 0.0019]),
    preferred=st.sampled_from([(), (2, 4)]),
    policy=st.sampled_from([None, QueueDiscipline(max_size=3), QueueDiscipline(timeout_seconds=0.01)]),
    priority_levels=st.sampled_from([0, 2]),
)


def _models(
    batchers: st.SearchStrategy[DynamicBatcher | None], **more: st.SearchStrategy[object]
) -> st.SearchStrategy[Model]:
    return st.builds(
        lambda seconds, per_item, **rest: model(seconds, per_item=per_item * seconds, gap=0.00015, **rest),
        st.sampled_from([0.0023, 0.0101]),
        st.sampled_from([0.0, 0.5]),
        service_scv=st.sampled_from([0.0, 0.05, 1.0]),
        instances=st.integers(1, 3),
        max_batch=st.sampled_from([1, 2, 8]),
        batcher=batchers,
        start_seconds=st.sampled_from([0.0, 0.0002]),
        **more,
    )


_ALONE = _models(st.none() | _PLAIN_BATCHERS)
_ANY = st.one_of(_models(st.none() | _BATCHERS, in_flight=st.integers(1, 2)), _models(st.none(), engine=ENGINES))


@settings(max_examples=150, deadline=None)
@given(_ALONE, st.sampled_from([20.0, 80.0, 150.0, 400.0]), st.integers(0, 1000))
def test_a_recursion_gives_each_request_the_times_that_events_give_it(one: Model, rate: float, seed: int) -> None:
    scenario = alone(one, OpenLoop(entry="m", rate=rate))
    assert_one_outcome(scenario, seed=seed)


@settings(max_examples=100, deadline=None)
@given(ENGINES, st.sampled_from([20.0, 80.0, 250.0]), st.integers(0, 1000))
def test_an_engine_alone_gives_each_request_the_times_that_events_give_it(
    engine: EngineModel, rate: float, seed: int
) -> None:
    assert_one_outcome(alone(model(engine=engine), OpenLoop(entry="m", rate=rate)), seed=seed)


@st.composite
def _graphs(draw: st.DrawFn) -> Scenario:
    """Draw two entries, a row and one with branches, which share models."""
    a, b, c, d = (replace(draw(_ANY if name in "ad" else _ALONE), name=name) for name in "abcd")
    row = (
        ModelVisit(model="a", gap_seconds=draw(st.sampled_from([0.0, 0.0003]))),
        ModelVisit(model="c", after=(0,), tail_seconds=draw(st.sampled_from([0.0, 0.004])), tail_scv=1.0),
    )
    branches = (
        ModelVisit(model="b"),
        ModelVisit(model="c", after=(0,), gap_seconds=0.0001),
        # Not the model of the step above: of two requests that end at one instant, either may come first to the next.
        ModelVisit(model="b"),
        ModelVisit(model="d", after=(1, 2)),
    )
    d = replace(d, batcher=replace(d.batcher, policy=None) if d.batcher else None)
    traffic = (
        OpenLoop(entry="row", rate=draw(st.sampled_from([10.0, 60.0])), items=draw(st.integers(1, 2)), priority=1),
        OpenLoop(entry="branches", rate=draw(st.sampled_from([10.0, 40.0]))),
        OpenLoop(entry="row", rate=5.0, scv=0.5, priority=2),
    )
    return Scenario(
        models=(d, c, a, b),
        entries=(EntryGraph(name="row", steps=row), EntryGraph(name="branches", steps=branches)),
        traffic=traffic,
    )


@settings(max_examples=60, deadline=None)
@given(_graphs(), st.integers(0, 1000))
def test_models_one_after_the_other_do_what_they_do_together(scenario: Scenario, seed: int) -> None:
    assert in_order(scenario) is not None
    assert_one_outcome(scenario, seed=seed)


_FIRST, _SECOND = model(name="a"), model(name="b")
_ROW = EntryGraph(name="e", steps=(ModelVisit(model="b"), ModelVisit(model="a", after=(0,))))
_OPEN = Scenario(models=(_FIRST, _SECOND), entries=(_ROW,), traffic=(OpenLoop(entry="e", rate=1.0),))
_SHEDDING = replace(_FIRST, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=2)))


def test_models_come_after_those_that_feed_them() -> None:
    assert in_order(_OPEN) == [_SECOND, _FIRST]
    assert in_order(replace(_OPEN, models=(_SHEDDING, _SECOND))) == [_SECOND, _SHEDDING]


def test_models_that_share_more_than_they_can_use_up_are_simulated_alone() -> None:
    sharing = tuple(replace(one, demand={"cpu": 1.0}) for one in (_FIRST, _SECOND))
    assert in_order(replace(_OPEN, models=sharing, resources=(Resource(name="cpu", capacity=2.0),))) is not None
    assert in_order(replace(_OPEN, models=sharing, resources=(Resource(name="cpu", capacity=1.9),))) is None


def _visits(*steps: ModelVisit) -> Scenario:
    return replace(_OPEN, entries=(replace(_ROW, steps=steps),))


@pytest.mark.parametrize(
    "scenario",
    [
        replace(_OPEN, traffic=(ClosedLoop(entry="e", clients=1),)),
        _visits(ModelVisit(model="a"), ModelVisit(model="b", caller=0)),
        replace(_OPEN, models=(replace(_FIRST, rate_limit={"slot": 1}), _SECOND), rate_limits={"slot": 1}),
        _visits(ModelVisit(model="a"), ModelVisit(model="b", after=(0,)), ModelVisit(model="a", after=(1,))),
        replace(_visits(ModelVisit(model="a"), ModelVisit(model="b")), models=(_SHEDDING, _SECOND)),
    ],
    ids=["clients wait", "a call", "a rate limit", "a second visit", "a branch is shed"],
)
def test_models_that_wait_for_one_another_are_simulated_together(scenario: Scenario) -> None:
    assert in_order(scenario) is None


@pytest.mark.parametrize(
    ("batcher", "begun"),
    [
        (None, [0.1, 0.2, 0.21, 0.22]),
        (DynamicBatcher(), [0.1, 0.2, 0.21, 0.21]),
        (DynamicBatcher(delay_seconds=0.001, overtakes=0.0), [0.101, 0.201, 0.211, 0.221]),
        (DynamicBatcher(delay_seconds=0.001, overtakes=1.0), [0.101, 0.201, 0.211, 0.211]),
    ],
    ids=["no batches", "no window", "a window", "an overtaken window"],
)
def test_ordinary_stages_need_no_events(batcher: DynamicBatcher | None, begun: list[float]) -> None:
    found = executed(model(0.01, batcher=batcher, max_batch=8), [0.1, 0.2, 0.205, 0.208], [1] * 4, 0)
    assert found is not None
    assert found.begun == pytest.approx(begun)


def test_a_payload_beside_which_the_next_one_fills_is_left_to_events() -> None:
    stage = model(0.01, batcher=DynamicBatcher(delay_seconds=0.001), max_batch=2)
    for times, known in (([0.1, 0.102, 0.103, 0.104], True), ([0.1, 0.102, 0.103, 0.104, 0.105], False)):
        assert (executed(stage, times, [1] * len(times), 0) is not None) == known
