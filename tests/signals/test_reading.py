"""Arithmetic of readings: interval, estimate, reason and span travel along."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.signals.signal import Missing, Reading, Subject
from diagnostics.units import Unit

FINITE = st.floats(-1e6, 1e6, allow_nan=False)
SIZES = st.floats(1e-3, 1e6)


@st.composite
def readings(draw: st.DrawFn, unit: Unit = Unit.SECONDS) -> Reading:
    low, value, high = sorted((draw(FINITE), draw(FINITE), draw(FINITE)))
    return Reading.of(value, unit, "metrics", low=low, high=high, estimated=draw(st.booleans()))


def seconds(value: float, **more: float | bool) -> Reading:
    return Reading.of(value, Unit.SECONDS, "statistics", **more)  # type: ignore[arg-type]


def test_a_sum_adds_values_and_intervals() -> None:
    found = seconds(1.0, low=0.5, high=2.0) + seconds(3.0, low=3.0, high=4.0)

    assert (found.value, found.low, found.high, found.unit) == (4.0, 3.5, 6.0, Unit.SECONDS)


def test_a_difference_is_as_uncertain_as_both_sides() -> None:
    found = seconds(3.0, low=2.0, high=4.0) - seconds(1.0, low=0.5, high=1.5)

    assert (found.value, found.low, found.high) == (2.0, 0.5, 3.5)


def test_equal_units_divide_to_a_ratio_and_others_keep_the_upper_unit() -> None:
    assert (seconds(1.0) / seconds(4.0)).unit is Unit.RATIO
    assert (seconds(1.0) / Reading.of(4, Unit.COUNT, "metrics")).unit is Unit.SECONDS


def test_a_divisor_that_may_be_zero_gives_no_value() -> None:
    assert (seconds(1.0) / seconds(0.0)).missing is Missing.IDLE
    assert (seconds(1.0) / seconds(1.0, low=0.0)).missing is Missing.IDLE


@given(top=FINITE, value=SIZES)
def test_a_divisor_whose_interval_holds_zero_gives_no_value(top: float, value: float) -> None:
    """Through zero a ratio has no bounds: its corners would claim far too narrow an interval."""
    found = seconds(top) / seconds(value, low=-value, high=2 * value)

    assert found.missing is Missing.IDLE


def test_a_count_or_ratio_times_seconds_is_seconds() -> None:
    assert (Reading.of(3, Unit.COUNT, "metrics") * seconds(2.0)).unit is Unit.SECONDS
    assert (seconds(2.0) * Reading.of(0.5, Unit.RATIO, "metrics")).unit is Unit.SECONDS


@pytest.mark.parametrize("missing", list(Missing))
def test_what_is_missing_on_either_side_is_missing_in_the_result(missing: Missing) -> None:
    absent = Reading.unknown(missing, Unit.SECONDS, "host")
    for found in (absent + seconds(1), seconds(1) - absent, absent * seconds(1), seconds(1) / absent):
        assert (found.value, found.low, found.high, found.missing) == (None, None, None, missing)


def test_an_estimate_on_either_side_makes_an_estimate() -> None:
    assert (seconds(1.0, estimated=True) + seconds(1.0)).estimated
    assert (seconds(1.0) / seconds(1.0, estimated=True)).estimated
    assert not (seconds(1.0) + seconds(1.0)).estimated


def test_the_fewest_events_and_the_shortest_span_stand_behind_a_result() -> None:
    found = seconds(1.0, events=100.0, span=60.0) + seconds(1.0, events=7.0)

    assert (found.events, found.span) == (7.0, 60.0)


def test_sources_are_named_once_each() -> None:
    both = seconds(1.0) + Reading.of(1.0, Unit.SECONDS, "configuration and statistics")

    assert both.source == "configuration and statistics"


@given(readings(), readings())
def test_the_interval_always_holds_the_value(a: Reading, b: Reading) -> None:
    for found in (a + b, a - b, a * b):
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high


@given(readings(), SIZES, st.floats(0, 0.9))
def test_a_quotients_interval_holds_its_value(a: Reading, value: float, spread: float) -> None:
    found = a / seconds(value, low=value * (1 - spread), high=value * (1 + spread))

    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


@given(readings(), readings(), FINITE, FINITE)
def test_the_interval_holds_every_combination_of_its_parts(a: Reading, b: Reading, x: float, y: float) -> None:
    assert a.low is not None
    assert a.high is not None
    assert b.low is not None
    assert b.high is not None
    x, y = min(max(x, a.low), a.high), min(max(y, b.low), b.high)
    found = a * b

    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * max(abs(found.low), abs(found.high), 1.0)
    assert found.low - slack <= x * y <= found.high + slack


def test_a_subject_is_the_same_key_in_any_ensemble_once_taken_out_of_it() -> None:
    here = Subject(server="s", model="m", ensemble="chat")

    assert here.within(None) == Subject(server="s", model="m")
    assert str(here) == "model m"
    assert str(Subject(server="s", ensemble="chat")) == "ensemble chat"
    assert str(Subject(server="s")) == "server s"
