"""What a load asks of a deployment, and whether it is kept up with: by simulation and by closed forms alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.predict import performance
from diagnostics.tuning.simulation.scenario import DynamicBatcher, EngineModel, Model, OpenLoop, QueueDiscipline
from tests.forecast.deployments import by_hand, service

LOOP = Model(name="loop", service=service(0.008, 0.002))
LLM = Model(
    name="llm",
    service=service(0.0003),
    engine=EngineModel(
        slots=4,
        prefill_seconds=0.002,
        iteration_seconds=0.01,
        iterations=20.0,
        cache_tokens=100.0,
        tokens_per_request=60.0,
    ),
)


@pytest.mark.parametrize("items", [2, 8, 16])
def test_client_batches_that_nothing_splits_are_executed_whole(items: int) -> None:
    fitted = by_hand(LOOP, traffic=OpenLoop(entry="chat", rate=20.0, items=items))
    reported, quick = performance(fitted, draws=0, visits=4_000), estimate(fitted)

    assert reported.mean
    assert quick.mean
    assert quick.mean.value == pytest.approx(reported.mean.value, rel=0.08)
    assert reported.stages[0].busy_share.value == pytest.approx(20 * (0.00815 + 0.002 * items), rel=0.03)


def test_an_engine_that_cannot_keep_up_answers_what_its_cache_has_room_for() -> None:
    fitted = by_hand(LLM, traffic=OpenLoop(entry="chat", rate=20.0))
    for reported in (performance(fitted, draws=0, visits=1_000), estimate(fitted)):
        assert not reported.stable
        assert reported.throughput.value == pytest.approx(1 / 0.202, rel=0.02)


def test_a_queue_whose_requests_expire_keeps_up_with_any_load() -> None:
    policy = QueueDiscipline(timeout_seconds=0.05)
    limited = replace(LOOP, batcher=DynamicBatcher(policy=policy, overtakes=0.0))
    reported = performance(by_hand(limited, traffic=OpenLoop(entry="chat", rate=200.0)), draws=2, visits=4_000)

    assert reported.mean
    assert reported.mean.high
    assert reported.mean.value < 0.07
    assert reported.throughput.value + reported.rejected == pytest.approx(200.0, rel=0.05)


def test_bursts_behind_a_stage_that_may_not_keep_up_have_no_upper_end() -> None:
    vague = replace(LOOP, service=replace(LOOP.service, per_item_high=0.02), max_batch=8, batcher=DynamicBatcher())
    reported = estimate(by_hand(vague, traffic=OpenLoop(entry="chat", rate=200.0, burst=4.0)))

    assert reported.mean
    assert reported.mean.high is None
