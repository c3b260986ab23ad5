from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.forecast.performance import Estimate
from diagnostics.forecast.predict import knee_of_load, knee_of_setting
from tests.forecast.performances import performance


@pytest.mark.parametrize(
    ("means", "knee"),
    [
        ((0.280, 0.123, 0.121, 0.121), 1),
        ((None, None, 0.121, 0.120), 2),
        # Steps below 5 % that add up to more are a gain all the same.
        ((0.100, 0.097, 0.094, 0.0935), 1),
        ((0.100, 0.100, 0.050), 2),
        ((0.100, 0.120, 0.140), 0),
        ((None, None), None),
    ],
)
def test_the_knee_is_the_first_value_after_which_none_takes_off_5_percent(
    means: tuple[float | None, ...], knee: int | None
) -> None:
    assert knee_of_setting([performance(mean) for mean in means]) == knee


def test_a_gain_within_the_interval_of_the_value_moved_to_is_no_gain() -> None:
    assert knee_of_setting([performance(0.100), performance(0.080, width=0.030)]) == 0
    assert knee_of_setting([performance(0.100), performance(0.080, width=0.019)]) == 1


def test_a_load_has_its_knee_where_throughput_per_latency_is_greatest() -> None:
    points = [
        performance(0.030, throughput=10),
        performance(0.035, throughput=20),
        performance(0.090, throughput=30),
        performance(None, throughput=33),
    ]

    assert knee_of_load(points) == 1
    assert knee_of_load([performance(None)]) is None
    doubtful = replace(points[1], mean=Estimate(value=0.035, low=0.03, high=None))
    assert knee_of_load([points[0], doubtful]) == 0
