from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.slo.burn import (
    DAY,
    HOUR,
    WindowEvents,
    at_least,
    burn_rate,
    count_interval,
    fewest_bad_events,
    firing,
    forecast,
    pairs,
    share_interval,
)


def counted(seconds: float, total: float, bad: float) -> WindowEvents:
    return WindowEvents(seconds=seconds, total=total, bad=bad, low=bad, high=bad)


def test_the_windows_of_a_month_are_the_workbooks() -> None:
    found = [(one.severity, one.short, one.long, round(one.factor, 6)) for one in pairs(30 * DAY)]
    assert found == [
        ("page", 300, HOUR, 14.4),
        ("page", 1800, 6 * HOUR, 6.0),
        ("ticket", 2 * HOUR, DAY, 3.0),
        ("ticket", 6 * HOUR, 3 * DAY, 1.0),
    ]


def test_one_failure_at_ten_requests_an_hour_pages_nobody_and_an_outage_does() -> None:
    for failures, alerts in ((1, False), (10, True)):
        total, allowed = 10.0, 0.001
        assert (burn_rate(failures, total, allowed) or 0) > 14.4, "the burn rate alone would page"
        page = pairs(30 * DAY)[0]
        assert firing(page, counted(HOUR, total, failures), counted(300, 1, 1), allowed) is alerts


def test_a_burn_that_has_ended_no_longer_alerts() -> None:
    page = pairs(30 * DAY)[0]
    assert not firing(page, counted(HOUR, 1e5, 5e3), counted(300, 1e4, 0), 0.001)


@settings(max_examples=50)
@given(st.floats(1.5, 50), st.floats(1, 1000), st.floats(1e-3, 1e5))
def test_a_service_that_keeps_its_promise_alerts_less_than_once_in_ten_periods_at_any_traffic(
    factor: float, windows: float, expected: float
) -> None:
    fewest = fewest_bad_events(factor, windows)
    if fewest is None or expected > 500:
        return
    needed = max(fewest, math.ceil(factor * expected - 1e-9))
    assert at_least(needed, expected) <= 0.1 / windows + 1e-9


@settings(max_examples=50)
@given(st.floats(0.001, 0.5), st.integers(1, 100_000))
def test_the_interval_of_a_share_holds_the_share(share: float, total: int) -> None:
    low, high = share_interval(round(share * total), total)
    assert 0 <= low <= round(share * total) / total <= high <= 1


def test_intervals_are_those_of_the_tables() -> None:
    assert share_interval(0, 10) == (0.0, pytest.approx(0.2775, abs=1e-3))  # Brown, Cai and DasGupta
    assert count_interval(10) == (pytest.approx(4.795, abs=0.02), pytest.approx(18.39, abs=0.02))  # exact Poisson
    assert at_least(2, 0.01) == pytest.approx(4.967e-5, rel=1e-3)


def test_a_forecast_takes_the_shortest_window_that_tells_a_pace_and_holds_its_chance() -> None:
    found = forecast(100.0, [counted(HOUR, 1000, 1), counted(6 * HOUR, 6000, 36)])
    assert found is not None
    assert (found.over, found.expected) == (6 * HOUR, pytest.approx(100 / 6 * HOUR))
    assert found.soonest is not None
    assert found.latest is not None
    assert found.soonest < 100 / 6 * HOUR < found.latest


def test_nothing_bad_forecasts_no_end_and_nothing_counted_no_forecast() -> None:
    found = forecast(100.0, [counted(HOUR, 1000, 0)])
    assert found is not None
    assert found.expected is None
    assert found.soonest is not None, "what was not seen in an hour may still happen"
    assert forecast(100.0, [counted(HOUR, 0, 0)]) is None


def test_a_budget_that_is_spent_ends_now() -> None:
    found = forecast(-5.0, [counted(HOUR, 1000, 50)])
    assert found is not None
    assert found.expected == 0


@pytest.mark.parametrize("days", [1 / 24, 0.5, 1, 6.9, 7, 28, 30, 90, 365])
def test_every_period_has_a_page_and_windows_within_it(days: float) -> None:
    found = pairs(days * DAY)
    assert found[0].severity == "page"
    assert all(one.short < one.long <= days * DAY and one.fewest >= 3 for one in found)
