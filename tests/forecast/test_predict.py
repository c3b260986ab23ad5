from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.estimate import estimate
from diagnostics.forecast.fitted import Doubt, ModelDoubt
from diagnostics.forecast.performance import Performance, saving
from diagnostics.forecast.predict import forecast, performance
from diagnostics.forecast.runs import Draw, drawn
from diagnostics.forecast.what_if import WhatIf
from diagnostics.tuning.service import constant
from diagnostics.tuning.simulation.scenario import (
    ClosedLoop,
    DynamicBatcher,
    EngineModel,
    Model,
    OpenLoop,
    QueueDiscipline,
    Resource,
)
from diagnostics.tuning.waiting import waiting_seconds
from tests.forecast.deployments import by_hand, change, service
from tests.forecast.performances import performance as by_hand_performance

SAFETY = Model(name="safety", service=service(0.03), max_batch=8)
DRAWS = 5


def mean(reported: Performance) -> float:
    assert reported.mean
    return reported.mean.value


def test_one_seed_gives_one_forecast_and_another_seed_another() -> None:
    fitted = by_hand(SAFETY)
    what_if = WhatIf(changes=(change("safety", {"instance_group.count": 2}),))

    once = performance(fitted, what_if, seed=3, draws=2)

    assert performance(fitted, what_if, seed=3, draws=2) == once
    assert performance(fitted, what_if, seed=4, draws=2) != once


@pytest.mark.parametrize("count", [1, 2])
def test_simulated_and_closed_forms_agree_on_a_plain_queue(count: int) -> None:
    fitted = by_hand(replace(SAFETY, instances=count))
    exact = waiting_seconds(rate=20, service=0.03015, servers=count, arrival_scv=1, service_scv=0)

    reported, quick = performance(fitted, draws=1), estimate(fitted)

    assert exact
    assert mean(reported) == pytest.approx(0.03 + exact, rel=0.06)
    assert mean(quick) == pytest.approx(0.03 + exact, rel=0.03)
    assert reported.stages[0].busy_share.value == pytest.approx(20 * 0.03015 / count, rel=0.02)
    assert reported.throughput.value == pytest.approx(20, rel=1e-9)


def test_more_than_a_stage_can_do_has_no_latency_and_its_capacity_as_throughput() -> None:
    reported = performance(by_hand(SAFETY), WhatIf(rate_factor=2.0), draws=DRAWS)
    quick = estimate(by_hand(SAFETY), WhatIf(rate_factor=2.0))

    for one in (reported, quick):
        assert one.mean is one.p95 is None
        assert not one.stable
        assert one.throughput.value == pytest.approx(1 / 0.03015, rel=0.02)
    assert reported.stages[0].queue_mean is None


def test_near_saturation_the_interval_has_no_upper_end_where_the_stage_may_not_keep_up() -> None:
    fitted = by_hand(
        replace(SAFETY, service=service(0.0485)),
        doubt=Doubt(models={"safety": ModelDoubt(service_scv=(0.0, 0.0), service_error=0.05)}),
    )

    reported = performance(fitted, draws=DRAWS)

    assert reported.mean
    assert reported.mean.high is None
    assert reported.mean.low < reported.mean.value
    assert reported.mean_most
    assert reported.accounts_for(reported.mean.value)
    assert reported.accounts_for(reported.mean_most)
    # Half a minute in which a few per cent too much come makes nobody wait for one of them.
    assert not reported.accounts_for(30.0)


def test_what_both_sides_of_a_change_have_in_common_is_not_in_the_interval_of_the_difference() -> None:
    unsure = Doubt(models={"safety": ModelDoubt(service_scv=(0.0, 0.0), service_error=0.1)})
    now, then = (performance(by_hand(one, doubt=unsure), draws=DRAWS) for one in (SAFETY, replace(SAFETY, instances=2)))
    found = saving(now, then)

    assert found
    assert now.mean
    assert then.mean
    assert now.mean.high
    assert then.mean.high
    assert found.high
    assert found.value == pytest.approx(now.mean.value - then.mean.value)
    assert found.low > now.mean.low - then.mean.high
    assert found.high < now.mean.high - then.mean.low


@pytest.mark.parametrize(
    ("before", "after", "low", "high"),
    [
        ((0.3,) * 20, (0.1,) * 20, 0.2, 0.2),
        ((0.3, *(0.4,) * 19), (0.1,) * 20, 0.2, 0.3),
        ((None, *(0.3,) * 19), (0.1,) * 20, 0.2, 0.2),
        ((None, None, *(0.3,) * 18), (0.1,) * 20, 0.2, None),
    ],
)
def test_draws_of_one_number_are_compared(
    before: tuple[float | None, ...], after: tuple[float | None, ...], low: float, high: float | None
) -> None:
    found = saving(by_hand_performance(0.3, drawn=before), by_hand_performance(0.1, drawn=after))

    assert found
    assert found.low == pytest.approx(low)
    assert found.high == (None if high is None else pytest.approx(high))


def test_there_is_no_difference_of_what_may_have_no_steady_state() -> None:
    steady, stuck = (0.3,) * 20, (None, None, *(0.3,) * 18)

    assert saving(by_hand_performance(0.3, drawn=steady), by_hand_performance(0.3, drawn=stuck)) is None
    assert saving(by_hand_performance(None, drawn=stuck), by_hand_performance(0.3, drawn=steady)) is None
    assert saving(by_hand_performance(0.3), by_hand_performance(0.1)) is None


def test_a_limited_queue_turns_away_what_is_too_much_and_stays_finite() -> None:
    limited = replace(SAFETY, batcher=DynamicBatcher(policy=QueueDiscipline(max_size=4)), max_batch=1)
    reported = performance(by_hand(limited), WhatIf(rate_factor=2.0), draws=1)

    assert reported.mean
    assert reported.rejected > 2
    # Formulas leave out the wake-ups that a queue policy loses.
    quick = estimate(by_hand(limited), WhatIf(rate_factor=2.0))
    assert 40 - 1 / 0.03015 < quick.rejected < reported.rejected
    assert reported.throughput.value + reported.rejected == pytest.approx(40, rel=0.03)


def test_batches_of_unknown_cost_have_an_interval_from_flat_to_linear() -> None:
    unseen = replace(SAFETY, service=constant(0.045), batcher=DynamicBatcher())
    known = replace(SAFETY, service=service(0.045), batcher=DynamicBatcher())

    def width(model: Model) -> float:
        reported = performance(by_hand(model), draws=DRAWS).mean
        assert reported
        return (reported.high or float("inf")) - reported.low

    assert width(unseen) > 2 * width(known)


def test_draws_cover_what_is_not_known_in_equal_parts() -> None:
    places = sorted(Draw(number=number, of=4, seed=1).position("slope safety") for number in range(4))

    assert [int(place * 4) for place in places] == [0, 1, 2, 3]
    assert places != sorted(Draw(number=number, of=4, seed=2).position("slope safety") for number in range(4))


def test_executions_of_which_few_were_seen_take_no_negative_time_in_any_draw() -> None:
    model = Model(name="safety", service=service(0.02))
    doubt = Doubt(models={"safety": ModelDoubt(service_scv=(1.0, 1.0), service_error=2.4)}, arrivals={})
    fitted = replace(by_hand(model), doubt=doubt)

    times = [drawn(fitted, Draw(number=number, of=20, seed=0)).models[0].service.time(1) for number in range(20)]

    assert 0 < min(times) < 0.02 < max(times)


def test_recorded_arrivals_are_replayed_and_drawn_anew_only_where_another_window_would_differ() -> None:
    times = tuple(i * 0.05 + 0.02 * (i % 3) for i in range(100))
    fixed = by_hand(SAFETY, traffic=OpenLoop(entry="chat", times=times))
    again = replace(fixed, doubt=replace(fixed.doubt, replayed=frozenset({"chat"})))
    draw = Draw(number=0, of=1, seed=0)

    given, redrawn = drawn(fixed, draw).traffic[0], drawn(again, draw).traffic[0]
    assert isinstance(given, OpenLoop)
    assert isinstance(redrawn, OpenLoop)
    assert given.times == times
    assert redrawn.times != times
    assert redrawn.times
    assert len(redrawn.times) == 100
    assert redrawn.times[-1] == pytest.approx(times[-1], rel=0.1)


def test_known_arrivals_are_counted_between_two_reads_and_their_luck_is_the_executions_alone() -> None:
    times = tuple(0.1 + 0.1 * number for number in range(100))
    varying = replace(SAFETY, service_scv=1.0)
    fitted = by_hand(varying, traffic=OpenLoop(entry="chat", times=times))

    reported = performance(fitted, draws=0, replay_warmup_seconds=2.05, replay_seconds=5.0)

    assert reported.throughput.value == pytest.approx(10.0, abs=0.3)
    assert (reported.throughput.high or 0.0) - reported.throughput.low >= 0.399
    # Of 50 executions of one run the mean is off by a seventh; of all runs, by a quarter of that.
    assert reported.stages[0].compute_mean.value == pytest.approx(0.03, rel=0.1)


def test_a_closed_loop_obeys_the_response_time_law() -> None:
    loop = by_hand(SAFETY, traffic=ClosedLoop(entry="chat", clients=6, think_seconds=0.1))

    for reported in (performance(loop, draws=1), estimate(loop)):
        assert mean(reported) == pytest.approx(6 / reported.throughput.value - 0.1, rel=0.05)
        assert reported.throughput.value == pytest.approx(1 / 0.03015, rel=0.08)


def test_a_lone_client_waits_for_nobody_and_keeps_its_stages_busy() -> None:
    quick = estimate(by_hand(SAFETY, traffic=ClosedLoop(entry="chat", clients=1)))

    assert mean(quick) == pytest.approx(0.03, rel=0.02)
    assert quick.stages[0].busy_share.value == pytest.approx(1.0, abs=0.02)


def test_a_lone_client_waits_for_company_in_vain_unless_it_fills_the_batch_itself() -> None:
    window = DynamicBatcher(delay_seconds=0.05)
    model = Model(name="safety", service=service(0.03), max_batch=8, batcher=window)
    fills = replace(model, batcher=replace(window, preferred=(1,)))
    alone, filled = (estimate(by_hand(one, traffic=ClosedLoop(entry="chat", clients=1))) for one in (model, fills))

    assert mean(alone) == pytest.approx(0.08, rel=0.02)
    assert mean(filled) == pytest.approx(0.03, rel=0.02)


def test_a_burst_waits_for_half_of_itself() -> None:
    fitted = by_hand(SAFETY, traffic=OpenLoop(entry="chat", rate=5.0, burst=11.0))
    exact = (0.5 * 5 * 0.03015**2 + 5 * 0.03015) / (1 - 5 * 0.03015)

    for reported in (performance(fitted, draws=1), estimate(fitted)):
        assert mean(reported) == pytest.approx(0.03 + exact, rel=0.05)


def test_instances_of_a_full_device_bring_nothing() -> None:
    alone = replace(SAFETY, demand={"GPU": 1.0}, service=service(0.04))
    fitted = by_hand(alone, resources=(Resource(name="GPU"),))
    more = WhatIf(changes=(change("safety", {"instance_group.count": 4}),), rate_factor=0.9)

    one, four = performance(fitted, WhatIf(rate_factor=0.9), draws=1), performance(fitted, more, draws=1)

    assert four.stages[0].compute_mean.value > 1.5 * one.stages[0].compute_mean.value
    assert mean(four) > 0.7 * mean(one)
    assert mean(estimate(fitted, more)) > 1.4 * 0.04


def test_an_engines_time_is_its_iterations_and_what_joins_them() -> None:
    engine = EngineModel(slots=32, prefill_seconds=0.004, iteration_seconds=0.006, iterations=16.0)
    fitted = by_hand(Model(name="llm", service=service(0.0003), engine=engine))
    # Each iteration holds 20/s × its own length of joining requests; the first half of one is waited for.
    iteration = 0.006 / (1 - 20 * 0.004)
    at_work = min(20 * 16 * iteration, 1.0)

    for reported in (performance(fitted, draws=1), estimate(fitted)):
        assert mean(reported) == pytest.approx(16 * iteration + 0.004 + at_work * iteration / 2, rel=0.06)


def test_a_full_engine_answers_what_its_slots_do() -> None:
    engine = EngineModel(slots=2, prefill_seconds=0.0, iteration_seconds=0.02, iterations=10.0)
    reported = performance(by_hand(Model(name="llm", service=service(0.0003), engine=engine)), draws=1)

    assert reported.mean is None
    assert reported.throughput.value == pytest.approx(2 / 0.2, rel=0.03)


def test_the_windows_account_that_differs_from_the_measured_mean_is_stated() -> None:
    fitted = by_hand(SAFETY)
    unlike = replace(fitted, measured=replace(fitted.measured, mean=1.0))
    what_if = WhatIf(changes=(change("safety", {"instance_group.count": 2}),))

    assert any("but 1 s was measured" in stated for stated in forecast(unlike, what_if, draws=1).assumptions)


@pytest.mark.parametrize(("instances", "shared"), [(12, True), (64, True), (1, False)])
def test_clients_in_a_closed_loop_are_at_the_bottleneck(instances: int, shared: bool) -> None:
    """Of 24 clients, as many as there are instances slow each other down on what they share; the others wait."""
    demand = {"gpu": 0.3} if shared else {}
    model = Model(name="safety", service=service(0.04), instances=instances, demand=demand)
    resources = (Resource(name="gpu", capacity=1.0),) if shared else ()
    fitted = by_hand(model, traffic=ClosedLoop(entry="chat", clients=24), resources=resources)
    (reported,), (run,) = estimate(fitted).stages, performance(fitted, draws=0, visits=3_000).stages

    assert reported.queue_mean is not None
    assert run.queue_mean is not None
    assert reported.queue_mean.value == pytest.approx(run.queue_mean.value, rel=0.05, abs=0.005)
    assert reported.compute_mean.value == pytest.approx(run.compute_mean.value, rel=0.05)
    assert reported.busy_share.value == pytest.approx(run.busy_share.value, rel=0.1)
