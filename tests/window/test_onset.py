from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.window.onset import MOST_STEPS, rise


def noisy(levels: list[float], seed: int = 1, spread: float = 0.1) -> list[float]:
    draw = random.Random(seed)
    return [level * (1 + draw.gauss(0, spread)) for level in levels]


def test_a_rise_that_lasts_is_found_where_it_begins() -> None:
    found = rise(noisy([10.0] * 8 + [40.0] * 10))

    assert found is not None
    assert (found.first, found.last) == (8, 18)
    assert found.inside == pytest.approx(40, rel=0.1)


def test_a_stall_that_ends_again_is_found() -> None:
    found = rise(noisy([10.0] * 8 + [900.0] * 3 + [10.0] * 7))

    assert found is not None
    assert (found.first, found.last) == (8, 11)


def test_one_read_far_above_the_rest_is_a_stall_too() -> None:
    found = rise(noisy([10.0] * 6 + [500.0] + [10.0] * 6))

    assert found is not None
    assert found.first == 6


@pytest.mark.parametrize(
    "levels",
    [
        [10.0] * 18,
        [40.0] * 6 + [10.0] * 12,  # it was there from the start
        [10.0 + 3 * i for i in range(18)],  # it grows all the time
        [10.0] * 9 + [12.0] * 9,  # too small to matter
        [10.0] * 17 + [40.0],  # one read at the end may be an outlier
        [10.0, 40.0],
    ],
    ids=["level", "from the start", "a ramp", "small", "one read at the end", "short"],
)
def test_no_onset_is_claimed(levels: list[float]) -> None:
    assert rise(noisy(levels)) is None


def test_noise_alone_has_an_onset_in_none_of_a_thousand_series() -> None:
    draw = random.Random(7)
    series = [[draw.expovariate(1.0) for _ in range(20)] for _ in range(1000)]

    assert sum(rise(values) is not None for values in series) <= 1


@given(st.lists(st.floats(0, 1e9), max_size=MOST_STEPS))
def test_any_series_is_judged_without_fault(values: list[float]) -> None:
    found = rise(values)

    assert found is None or 0 < found.first < found.last <= len(values)
