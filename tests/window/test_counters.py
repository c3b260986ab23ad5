"""Counters of one model version: epochs, and what is left out because it cannot be true."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window.counters import Batches, Counter, CounterPoint, CounterTable, Delta, Opened
from diagnostics.window.points import Numbers

FOREVER = (-1e12, 1e12)
UNDERFLOW_SECONDS = 2**64 * 1e-6


def point(at: float, requests: float, *, seconds: float | None = None, mono: float | None = None) -> CounterPoint:
    """Return a read: so many requests, a tenth of a second each unless told otherwise."""
    values = {
        Counter.SUCCESS: requests,
        Counter.EXECUTIONS: requests,
        Counter.INFERENCES: requests,
        Counter.REQUEST_SECONDS: requests * 0.1 if seconds is None else seconds,
    }
    batches = {1: Batches(requests, requests * 0.1)} if requests else {}
    return CounterPoint(at=at, mono=at if mono is None else mono, values=Numbers(values), batches=batches)


def table_of(points: Sequence[CounterPoint], previous: tuple[float, float] | None = None) -> CounterTable:
    """Return the table of some reads; `previous` is the server's read before the first of them."""
    table = CounterTable("statistics")
    for one in points:
        table.add(one, previous)
        previous = (one.at, one.mono)
    return table


def whole(points: Sequence[CounterPoint], previous: tuple[float, float] | None = None) -> Delta:
    """Return the increase over all reads, which must exist."""
    delta = table_of(points, previous).delta(*FOREVER)
    assert delta is not None
    return delta


def test_unequal_intervals_add_up_to_the_difference_of_first_and_last() -> None:
    delta = whole([point(0, 10), point(2, 14), point(3, 15), point(60, 130)])

    assert delta.values[Counter.SUCCESS] == 120
    assert delta.seconds == 60
    assert delta.batches[1].executions == 120
    assert delta.batches[1].seconds == pytest.approx(12.0)
    assert (delta.steps, delta.resets, delta.dropped) == (3, 0, 0)


def test_a_single_read_has_no_increase() -> None:
    assert table_of([point(0, 10)]).delta(*FOREVER) is None


def test_a_span_takes_only_steps_that_lie_inside_it() -> None:
    table = table_of([point(0, 0), point(10, 10), point(20, 30), point(30, 60)])
    delta = table.delta(10, 25)

    assert delta is not None
    assert delta.values[Counter.SUCCESS] == 20


def test_after_a_reset_counting_starts_from_zero_in_a_new_epoch() -> None:
    delta = whole([point(0, 100), point(10, 200), point(20, 30), point(30, 90)])

    assert delta.values[Counter.SUCCESS] == 100 + 30 + 60
    assert delta.resets == 1
    assert delta.seconds == 30


def test_failures_that_survive_a_reload_are_no_reset_of_the_rest() -> None:
    points = [point(0, 100), point(10, 40)]
    points = [
        CounterPoint(at=p.at, mono=p.mono, values=Numbers({**p.values, Counter.FAILURE: failed}), batches=p.batches)
        for p, failed in zip(points, (50.0, 52.0), strict=True)
    ]

    assert whole(points).values[Counter.FAILURE] == 52
    assert whole(points).values[Counter.SUCCESS] == 40


def test_failures_that_restart_never_count_negative() -> None:
    points = [
        CounterPoint(at=at, mono=at, values=Numbers({Counter.SUCCESS: ok, Counter.FAILURE: failed}), batches={})
        for at, ok, failed in ((0.0, 10.0, 50.0), (10.0, 20.0, 1.0))
    ]

    assert whole(points).values[Counter.FAILURE] == 0


def test_a_version_that_appears_in_mid_window_started_from_zero_at_the_read_before() -> None:
    table = table_of([point(20, 8), point(30, 20)], previous=(10.0, 10.0))
    first, second = table.steps

    assert (first.start, first.values[Counter.SUCCESS], first.opened) == (10, 8, Opened.APPEARED)
    assert first.from_zero
    assert not second.first


def test_a_version_that_was_there_at_the_first_read_is_no_new_one() -> None:
    (step,) = table_of([point(0, 5), point(10, 9)]).steps

    assert step.opened is Opened.BEFORE_WINDOW
    assert not step.from_zero


def test_a_version_that_vanishes_and_returns_reset_has_the_gap_in_its_new_epoch() -> None:
    delta = whole([point(0, 100), point(10, 150), point(40, 12)])

    assert delta.values[Counter.SUCCESS] == 50 + 12
    assert delta.resets == 1


def test_a_step_whose_durations_run_backwards_is_dropped_whole() -> None:
    delta = whole([point(0, 10), point(10, 20, seconds=0.5), point(20, 30), point(30, 40)])

    assert delta.values == {
        Counter.SUCCESS: 20,
        Counter.EXECUTIONS: 20,
        Counter.INFERENCES: 20,
        Counter.REQUEST_SECONDS: pytest.approx(1 + 2.5),
    }
    assert delta.dropped == 1


def test_an_unsigned_underflow_of_a_duration_is_dropped_on_its_way_in_and_out() -> None:
    delta = whole([point(0, 10), point(10, 20, seconds=UNDERFLOW_SECONDS), point(20, 30), point(30, 40)])

    assert delta.values[Counter.REQUEST_SECONDS] == pytest.approx(1.0)
    assert delta.dropped == 2


def test_an_absurd_count_is_taken_out_and_is_no_reset() -> None:
    delta = whole([point(0, 1000), point(10, 1010), point(20, 1.8e16), point(30, 1030), point(40, 1040)])

    assert delta.values[Counter.SUCCESS] == 40
    assert delta.resets == 0


def test_a_read_filed_under_the_wrong_time_is_taken_out_and_is_no_reset() -> None:
    delta = whole([point(0, 1000), point(10, 1010), point(12, 1090), point(20, 1020), point(30, 1030)])

    assert delta.values[Counter.SUCCESS] == 30
    assert delta.resets == 0


def test_a_reset_right_after_a_first_count_is_still_a_reset() -> None:
    delta = whole([point(0, 0), point(10, 50), point(20, 20)])

    assert delta.values[Counter.SUCCESS] == 70
    assert delta.resets == 1


def test_two_reads_at_one_instant_count_once() -> None:
    delta = whole([point(0, 10), point(10, 20), point(10, 20), point(20, 30)])

    assert delta.values[Counter.SUCCESS] == 20
    assert delta.seconds == 20


def test_a_wall_clock_that_jumps_changes_labels_and_no_duration() -> None:
    delta = whole([point(1000, 10, mono=0), point(400, 20, mono=10), point(1020, 30, mono=20)])

    assert delta.seconds == 20
    assert delta.values[Counter.SUCCESS] == 20


SOONER, MIDDLE, LATER = (tuple(range(*ends, 10)) for ends in ((10, 60), (60, 110), (110, 160)))


@pytest.mark.parametrize(
    ("filed", "set_back"),
    [
        ((*MIDDLE, *SOONER, *LATER), True),
        ((*SOONER, *LATER, *MIDDLE), True),
        ((*MIDDLE, *LATER, *SOONER), True),
        ((*LATER, *SOONER), False),  # what was counted between them was not read
        ((*MIDDLE, *range(0, 110, 10)), False),
        ((*MIDDLE, *SOONER, *range(300, 350, 10)), False),
        ((*MIDDLE, *SOONER, *range(60, 110, 10)), False),
    ],
)
def test_what_fits_where_later_reads_leave_room_was_filed_out_of_order(filed: Sequence[int], set_back: bool) -> None:
    table = table_of([point(2.0 * number, float(requests)) for number, requests in enumerate(filed)])

    assert table.clock_set_back is set_back
    assert not (set_back and table.resets)


def test_a_counter_that_some_steps_lack_is_not_summed() -> None:
    poor = CounterPoint(at=10, mono=10, values=Numbers({Counter.SUCCESS: 20.0}), batches={})
    delta = whole([point(0, 10), poor, point(20, 30)])

    assert delta.values == {Counter.SUCCESS: 20}


def test_a_batch_size_seen_for_the_first_time_counts_from_zero() -> None:
    values = {Counter.SUCCESS: 1.0}
    first = CounterPoint(at=0, mono=0, values=Numbers(values), batches={1: Batches(5, 0.5)})
    then = CounterPoint(at=10, mono=10, values=Numbers(values), batches={1: Batches(5, 0.5), 4: Batches(3, 0.9)})

    assert whole([first, then]).batches == {4: Batches(3, 0.9)}


increments = st.lists(st.integers(0, 1000), min_size=1, max_size=12)
restarts = st.sets(st.integers(1, 11), max_size=2)


@given(increments=increments, restarts=restarts)
def test_resets_never_make_more_or_negative_events(increments: list[int], restarts: set[int]) -> None:
    """Whatever restarts when, the count lies between nothing and what happened."""
    points, count = [point(0, 500)], 500
    for number, more in enumerate(increments, start=1):
        count = more if number in restarts else count + more
        points.append(point(number, count))
    delta = whole(points)

    assert 0 <= delta.values[Counter.SUCCESS] <= sum(increments)


@given(increments=increments)
def test_without_resets_the_steps_add_up_exactly(increments: list[int]) -> None:
    points, count = [point(0, 7)], 7
    for number, more in enumerate(increments, start=1):
        count += more
        points.append(point(number, count))

    assert whole(points).values[Counter.SUCCESS] == sum(increments)


@given(st.lists(st.floats(0, 1e18), min_size=2, max_size=12))
def test_no_series_of_values_raises_or_yields_a_negative_or_absurd_rate(values: list[float]) -> None:
    delta = table_of([point(i, value) for i, value in enumerate(values)]).delta(*FOREVER)

    assert delta is None or 0 <= delta.values[Counter.SUCCESS] <= 1e7 * delta.seconds
