from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.evidence.series import instants, series
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE
from tests.builders import Stage, SyntheticTriton, model_config, on

MOMENTS = st.lists(st.integers(0, 10**6), unique=True, max_size=400).map(sorted)


@given(MOMENTS, st.integers(1, 48))
def test_instants_are_moments_that_span_the_window(moments: list[float], most: int) -> None:
    found = instants(moments, most)

    assert set(found) <= set(moments)
    assert len(found) <= most + 1
    assert found == () if len(moments) < 2 else (found[0], found[-1]) == (moments[0], moments[-1])


@given(MOMENTS, st.integers(2, 12), st.integers(0, 10**6))
def test_instants_around_a_moment_hold_it(moments: list[float], most: int, around: float) -> None:
    found = instants(moments, most, around)

    if found and moments[0] <= around <= moments[-1] and around in moments:
        assert found[0] <= around <= found[-1]


def test_a_long_window_is_looked_at_near_the_moment() -> None:
    found = instants(range(1000), 10, around=500)

    assert (found[0], found[-1]) == (480, 519)


def test_a_series_has_a_reading_per_stretch_whichever_source_was_read_first() -> None:
    """Metrics and statistics are read one after the other; neither falls between two stretches."""
    slow = Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))
    see = SyntheticTriton(models=(slow,)).evidence()
    at = instants(see.moments("triton-0"), 4)
    rates = [sample.reading.value for sample in series(see, REQUEST_RATE, on("slow"), at)]
    queues = [sample.reading.value for sample in series(see, QUEUE_SECONDS, on("slow"), at)]

    assert rates == pytest.approx([38.0] * 4, rel=0.01)
    assert queues == pytest.approx([0.17] * 4, rel=0.01)
