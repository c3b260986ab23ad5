"""A service time is what batch statistics allow, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.errors import UsageError
from diagnostics.tuning.service import BatchPoint, constant, fit


def points(*rows: tuple[int, int, float]) -> list[BatchPoint]:
    return [BatchPoint(size=size, executions=count, seconds=seconds) for size, count, seconds in rows]


def test_affine_times_are_found_exactly() -> None:
    service = fit(points((1, 400, 0.0052), (2, 100, 0.0054), (8, 20, 0.0066)))

    assert service.base == pytest.approx(0.005)
    assert service.per_item == pytest.approx(0.0002)
    assert service.sizes_seen == (1, 2, 8)
    assert not service.estimated


def test_one_cold_execution_does_not_bend_the_slope() -> None:
    service = fit(points((1, 383, 0.0070), (2, 11, 0.0075), (5, 1, 1.880), (7, 1, 1.865), (13, 1, 0.0151)))

    assert service.time(1) == pytest.approx(0.0070)
    assert service.per_item < 0.001


def test_one_size_leaves_every_slope_from_flat_to_linear_open() -> None:
    service = fit(points((4, 100, 0.020)))

    assert service.estimated
    assert (service.per_item_low, service.per_item_high) == (0.0, pytest.approx(0.005))
    assert service.with_slope(0.0).time(1) == pytest.approx(0.020)
    assert service.with_slope(0.005).time(1) == pytest.approx(0.005)


def test_marginal_cost_tells_gain_from_none() -> None:
    free = fit(points((1, 500, 0.0044), (4, 200, 0.0045))).marginal_cost
    linear = fit(points((1, 477, 0.0098), (2, 203, 0.0190), (3, 108, 0.0283), (16, 46, 0.1473))).marginal_cost

    assert free.high < 0.2
    assert linear.low > 0.8
    assert constant(0.01).marginal_cost.low == 0
    assert constant(0.01).marginal_cost.high == pytest.approx(1)


def test_few_executions_of_a_second_size_leave_a_wide_range() -> None:
    few = fit(points((1, 100, 0.005), (2, 1, 0.0051)))
    many = fit(points((1, 100, 0.005), (2, 100, 0.0051)))

    assert few.per_item_high - few.per_item_low > 2 * (many.per_item_high - many.per_item_low)


@pytest.mark.parametrize("rows", [[], [(1, 0, 0.005)], [(1, 10, 0.0)]])
def test_without_an_execution_there_is_nothing_to_fit(rows: list[tuple[int, int, float]]) -> None:
    with pytest.raises(UsageError, match="no executions"):
        fit(points(*rows))


ROWS = st.lists(
    st.tuples(st.integers(1, 64), st.integers(1, 10**6), st.floats(1e-6, 100)),
    min_size=1,
    max_size=12,
    unique_by=lambda row: row[0],
)


@given(ROWS)
def test_any_statistics_give_times_that_grow_with_the_batch(rows: list[tuple[int, int, float]]) -> None:
    service = fit(points(*rows))

    assert 0 <= service.per_item_low <= service.per_item <= service.per_item_high + 1e-12
    assert 0 < service.time(1) <= service.time(64)
    assert service.time(service.pivot) == pytest.approx(max(rows, key=lambda row: (row[1], -row[0]))[2])
