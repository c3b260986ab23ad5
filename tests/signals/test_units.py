"""The only formatter of a number for people."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.units import Unit, span


@pytest.mark.parametrize(
    ("unit", "value", "shown"),
    [
        (Unit.SECONDS, 0.1686, "169 ms"),
        (Unit.SECONDS, 0.000012, "12 µs"),
        (Unit.SECONDS, 2.5, "2.5 s"),
        (Unit.SECONDS, 600, "10 min"),
        (Unit.SECONDS, 0, "0 ms"),
        (Unit.RATIO, 0.97, "97 %"),
        (Unit.RATIO, 0.0144, "1.4 %"),
        (Unit.BYTES, 1.5 * 2**30, "1.5 GiB"),
        (Unit.BYTES, 512, "512 B"),
        (Unit.COUNT, 32.66, "32.7"),
        (Unit.COUNT, 391_768, "391,768"),
        (Unit.PER_SECOND, 78.6, "78.6/s"),
        (Unit.WATTS, 679, "679 W"),
        (Unit.HERTZ, 1.56e9, "1,560 MHz"),
        (Unit.CELSIUS, 53, "53 °C"),
    ],
)
def test_numbers_are_shown_with_three_digits_and_their_unit(unit: Unit, value: float, shown: str) -> None:
    assert unit.show(value) == shown


@pytest.mark.parametrize("unit", list(Unit))
def test_what_is_missing_is_unknown_never_zero(unit: Unit) -> None:
    assert unit.show(None) == "unknown"


@given(unit=st.sampled_from(list(Unit)), value=st.floats(-1e15, 1e15))
def test_every_number_is_shown_on_one_short_line(unit: Unit, value: float) -> None:
    shown = unit.show(value)

    assert re.search(r"\d", shown)
    assert shown.isprintable()
    assert len(shown) <= 40


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (30 * 86_400, "30 d"),
        (6 * 3_600, "6 h"),
        (300, "5 min"),
        (60, "1 min"),
        (90, "90 s"),
        (36.1, "36.1 s"),
        (0.25, "250 ms"),
        (41.4 * 3_600, "41.4 h"),
        (2.94 * 86_400, "2.9 d"),
        (2_000 * 60, "33.3 h"),
    ],
)
def test_lengths_of_weeks_are_reported_in_units_that_people_count_in(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
