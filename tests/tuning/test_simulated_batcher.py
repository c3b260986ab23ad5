"""The dynamic batcher's rules, each as a trace worked out by hand from Triton's sources; times in milliseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from diagnostics.tuning.simulation.scenario import DynamicBatcher, Model, QueueDiscipline, TimeoutAction
from tests.tuning.simulated import milliseconds, model, replayed, run, waits

REJECT = QueueDiscipline(timeout_seconds=0.004)


def batched(*, max_batch: int = 8, seconds: float = 0.01, instances: int = 1, **settings: Any) -> Model:
    """Return a model that executes for 10 ms; its batcher's thread never comes before an instance."""
    batcher = DynamicBatcher(**{"overtakes": 0.0} | settings)
    return model(seconds, batcher=batcher, max_batch=max_batch, instances=instances)


def test_without_a_window_the_waiting_payload_grows_until_an_instance_takes_it() -> None:
    outcome = run(replayed(batched(), [0, 1, 5, 9.5])).models["m"]

    assert milliseconds(outcome.waits) == [0, 9, 5, 0.5]
    assert (outcome.executions, outcome.items) == (2, 4)


def test_without_a_window_a_full_payload_lets_the_next_one_grow() -> None:
    assert waits(replayed(batched(max_batch=2), [0, 1, 2, 3, 4])) == [0, 9, 8, 17, 16]


def test_a_window_begins_with_the_oldest_request() -> None:
    assert waits(replayed(batched(delay_seconds=0.002), [0, 1.5, 1.9])) == [2, 0.5, 0.1]


def test_a_payload_cut_at_its_windows_end_does_not_grow_while_it_waits() -> None:
    # 2 is cut at 3, behind the execution from 1 to 11; 5 and 6 stay beside it and run from 21 on.
    assert waits(replayed(batched(delay_seconds=0.001), [0, 2, 5, 6])) == [1, 9, 16, 15]


def test_a_batcher_that_is_ahead_of_the_instance_lets_the_payload_grow_at_the_last_moment() -> None:
    assert waits(replayed(batched(delay_seconds=0.001, overtakes=1.0), [0, 2, 5, 6])) == [1, 9, 6, 5]


def test_requests_that_reach_the_preferred_size_fill_up_a_payload_that_was_cut() -> None:
    # 2 is cut at 3; with 5 and 6 two wait, the preferred size: the first of them fills the payload up.
    assert waits(replayed(batched(delay_seconds=0.001, max_batch=2), [0, 2, 5, 6])) == [1, 9, 6, 15]


def test_a_payload_that_grew_as_the_sleep_ended_needs_less_to_be_full() -> None:
    # 2 is cut at 3; at 503 the thread wakes by itself and adds 502.5. Two items are held then, and the preferred size
    # is four less the one item held before: three that wait wake it, of which two fill the payload up.
    long = batched(seconds=1.0, delay_seconds=0.001, max_batch=4)
    times = [0, 2, 502.5, 600, 601, 602]
    assert milliseconds(run(replayed(long, times), seconds=4.0).models["m"].waits) == [1, 999, 498.5, 401, 400, 1399]


def test_the_preferred_size_ends_the_window() -> None:
    assert waits(replayed(batched(delay_seconds=0.01, preferred=(2,)), [0, 3])) == [3, 0]


def test_without_a_window_a_payload_stops_at_a_preferred_size() -> None:
    outcome = run(replayed(batched(preferred=(2,)), [0, 1, 2, 3, 4])).models["m"]

    assert milliseconds(outcome.waits) == [0, 9, 8, 17, 16]
    assert outcome.executions == 3


def test_the_largest_preferred_size_that_the_queue_holds_goes() -> None:
    # With a queue policy nothing is formed ahead, so that six wait at 10: four go then, two at 20.
    limited = batched(delay_seconds=0.05, preferred=(2, 4), policy=QueueDiscipline(max_size=10))
    assert waits(replayed(limited, [0, 0, 1, 1, 1, 1, 1, 1])) == [0, 0, 9, 9, 9, 9, 19, 19]


def test_a_preferred_size_that_no_batch_reaches_counts_for_nothing() -> None:
    for delay in (0.0, 0.001):
        small = batched(max_batch=2, delay_seconds=delay)
        never = batched(max_batch=2, delay_seconds=delay, preferred=(16,))
        assert waits(replayed(never, [0, 1, 2, 3, 4])) == waits(replayed(small, [0, 1, 2, 3, 4]))


def test_client_batches_that_do_not_fit_wait_for_the_next_payload() -> None:
    assert waits(replayed(batched(max_batch=4), [0, 1, 2, 3], items=[1, 3, 3, 1])) == [0, 9, 18, 17]


def test_payloads_whose_window_is_over_are_merged_as_they_are_taken() -> None:
    # 2 is cut at 3; the three at 5 do not fit with the one at 5.1, so they fill the payload up and close it, and the
    # one is cut at 6.1 beside it; at 11 the first payload is full, so that nothing is merged.
    full = batched(delay_seconds=0.001, max_batch=4)
    assert waits(replayed(full, [0, 2, 5, 5.1], items=[1, 1, 3, 1])) == [1, 9, 6, 15.9]
    # Past its preferred size the payload of 2 takes in the one at 5 and closes; 5.1 is cut at 6.1 and merged at 10.
    preferring = batched(delay_seconds=0.001, max_batch=8, preferred=(2,))
    assert waits(replayed(preferring, [0, 2, 5, 5.1, 7], items=[2, 2, 1, 1, 1])) == [0, 8, 5, 4.9, 13]


def test_a_higher_priority_overtakes_what_waits() -> None:
    scenario = replayed(batched(max_batch=1, priority_levels=2), [0, 1, 2, 3], levels=[2, 2, 2, 1])
    assert waits(scenario) == [0, 7, 19, 28]


def test_a_request_without_a_priority_has_the_default_one() -> None:
    scenario = replayed(batched(max_batch=1, priority_levels=2, default_priority=2), [0, 1, 2], levels=[1, 0, 1])
    assert waits(scenario) == [0, 8, 19]


def test_a_queue_of_limited_size_refuses_what_finds_it_full() -> None:
    outcome = run(replayed(batched(max_batch=1, policy=QueueDiscipline(max_size=1)), [0, 1, 2, 12]))

    assert milliseconds(outcome.models["m"].waits) == [0, 9, 8]
    assert (outcome.models["m"].refused, outcome.entries["m"].failed) == (1, 1)


def test_a_request_past_its_timeout_is_refused_when_the_batcher_looks() -> None:
    outcome = run(replayed(batched(max_batch=1, policy=REJECT), [0, 1, 7]))

    assert milliseconds(outcome.models["m"].waits) == [0, 3]
    assert outcome.models["m"].refused == 1
    # Refused at 10, when the execution ends, not at 5.
    assert outcome.models["m"].queue_length * 2e3 == pytest.approx(9 + 3)


def test_a_request_past_its_timeout_is_delayed_behind_those_in_time() -> None:
    policy = replace(REJECT, action=TimeoutAction.DELAY)
    assert waits(replayed(batched(max_batch=1, policy=policy), [0, 1, 7])) == [0, 3, 19]


def test_with_a_queue_policy_a_batcher_that_looks_too_early_sleeps_for_half_a_second() -> None:
    limited = batched(max_batch=1, policy=QueueDiscipline(max_size=10), overtakes=1.0)
    assert waits(replayed(limited, [0, 1])) == [0, 509]


def test_the_next_request_wakes_a_batcher_that_overslept() -> None:
    limited = batched(max_batch=1, policy=QueueDiscipline(max_size=10), overtakes=1.0)
    assert waits(replayed(limited, [0, 1, 100]))[:2] == [0, 99]


def test_a_refused_request_does_not_wake_a_batcher_that_overslept() -> None:
    limited = batched(max_batch=1, policy=QueueDiscipline(max_size=1), overtakes=1.0)
    assert waits(replayed(limited, [0, 1, 100, 200])) == [0, 509]


def test_an_idle_instance_takes_what_comes_while_it_starts() -> None:
    starting = replace(batched(), start_seconds=0.0002)
    assert waits(replayed(starting, [0, 0.1, 0.3])) == [0.2, 0.1, 9.9]


def test_two_payloads_per_instance_are_formed_ahead_and_no_more() -> None:
    # One executes, two wait, and the fourth is formed only as the first of those is taken: alone until then.
    outcome = run(replayed(batched(max_batch=2, delay_seconds=0.001), [0, 0, 1, 1, 2, 2, 3])).models["m"]
    assert milliseconds(outcome.waits) == [0, 0, 9, 9, 18, 18, 27]
    assert outcome.executions == 4


def test_preserved_order_holds_back_the_faster_of_two() -> None:
    ordered = replace(
        batched(instances=2, preserve_ordering=True), service=model(0.01, per_item=0.01).service, max_batch=2
    )
    scenario = replayed(ordered, [0, 1], items=[2, 1])
    outcome = run(scenario)
    assert milliseconds(outcome.entries["m"].latencies) == [20, 19]

    assert ordered.batcher
    free = replace(ordered, batcher=replace(ordered.batcher, preserve_ordering=False))
    assert milliseconds(run(replayed(free, [0, 1], items=[2, 1])).entries["m"].latencies) == [10, 20]
