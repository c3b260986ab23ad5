"""Percentiles of request times: whose they are, of which time, and when a summary is not believed."""

from __future__ import annotations

import pytest

from diagnostics.signals.signal import Missing, Reading
from diagnostics.signals.tails import latency_quantile
from diagnostics.window.window import window_of
from tests.builders import Stage, SyntheticTriton, model_config, view_of
from tests.builders_traffic import sent

# Mean request time 0.233 s. A read every 5 s.
STAGE = Stage("m", rate=20, execution=0.03, queue=0.2, input=0.001, output=0.002, config=model_config("m"))


def counted(number: int, rate: float = 20, version: int = 1) -> str:
    """Return the line that says how many requests the summary has had by a read."""
    return f'nv_inference_request_summary_us_count{{model="m",version="{version}"}} {1000 + rate * 5 * number}'


def of_summary(seconds: float, reads: int, quantile: float = 0.95) -> Reading:
    def page(number: int) -> list[str]:
        labels = 'model="m",version="1",quantile="0.95"'
        return [f"nv_inference_request_summary_us{{{labels}}} {seconds * 1e6 + number}", counted(number)]

    window = SyntheticTriton(models=(STAGE,), extra_metrics=page).window(reads)
    return latency_quantile(quantile).read(view_of(window, "m"))


def test_a_quantile_is_the_newest_of_the_servers_own_summary() -> None:
    found = of_summary(0.1, reads=13)

    assert found.value == pytest.approx(0.100012)
    assert found.span is None
    assert of_summary(0.1, reads=13, quantile=0.99).missing is Missing.NOT_EXPORTED


def test_a_summary_without_recent_requests_is_absent_not_zero() -> None:
    assert of_summary(float("nan"), reads=13).value is None


@pytest.mark.parametrize(("reads", "span"), [(5, 60), (11, 60), (12, None), (14, None), (15, 60), (60, 60)])
def test_a_summary_of_another_time_than_the_window_says_of_which(reads: int, span: float | None) -> None:
    assert of_summary(1.0, reads=reads).span == span


def test_a_summary_that_no_request_of_a_short_window_allows_is_not_believed() -> None:
    # A twentieth of the requests at 5 s each would alone make the mean 250 ms.
    assert of_summary(5.0, reads=5).missing is Missing.CONFLICTING
    assert of_summary(4.0, reads=5).value == pytest.approx(4.0, rel=0.01)
    assert of_summary(5.0, reads=13).value == pytest.approx(5.0, rel=0.01)


@pytest.mark.parametrize(("rate", "missing"), [(0.3, Missing.TOO_FEW_EVENTS), (0.4, None)])
def test_a_summary_of_fewer_requests_than_its_quantile_needs_is_not_believed(rate: float, missing: Missing) -> None:
    def page(number: int) -> list[str]:
        labels = 'model="m",version="1",quantile="0.95"'
        return [f"nv_inference_request_summary_us{{{labels}}} 1e6", counted(number, rate)]

    # A read every 5 s: of 30 s and of 100 s, 60 s hold 18 requests at 0.3/s and 24 at 0.4/s.
    for reads in (7, 21):
        window = SyntheticTriton(models=(STAGE,), extra_metrics=page).window(reads)
        assert latency_quantile(0.95).read(view_of(window, "m")).missing is missing


def test_clients_records_come_before_a_summary_if_there_are_enough_for_the_quantile() -> None:
    def page(number: int) -> list[str]:
        labels = 'model="m",version="1",quantile='
        every = [f'nv_inference_request_summary_us{{{labels}"{q}"}} 2e6' for q in (0.95, 0.999)]
        return [*every, counted(number, rate=100)]

    triton = SyntheticTriton(models=(STAGE,), extra_metrics=page)
    moments = [1 + n * 0.1 for n in range(200)]
    view = view_of(window_of([*triton.scrapes(), sent(moments, [0.2] * 180 + [0.4] * 20)]), "m", None)
    few = view_of(window_of([*triton.scrapes(), sent(moments[:99])]), "m", None)

    assert latency_quantile(0.95).read(view).value == pytest.approx(0.4)
    assert latency_quantile(0.999).read(view).value == pytest.approx(2.0)
    assert latency_quantile(0.95).read(few).value == pytest.approx(2.0)
