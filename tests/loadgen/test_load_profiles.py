"""When requests are due, and what is said of their latencies; no server."""

from __future__ import annotations

import itertools
import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.demo.server import Ports
from diagnostics.errors import CollectError, UsageError
from diagnostics.loadgen.driving import run_load
from diagnostics.loadgen.load import LoadProfile, Pattern, SentRequest, schedule, summarise


def poisson(rate: float = 40.0, duration: float = 60.0, seed: int = 1) -> LoadProfile:
    return LoadProfile(rate=rate, duration=duration, seed=seed)


def record(ms: float, *, ok: bool = True, t: float = 0.0, delay_ms: float = 0.0) -> SentRequest:
    return SentRequest(t=t, model="ensemble", ms=ms, ok=ok, code=200 if ok else 503, delay_ms=delay_ms)


def test_equal_seeds_give_equal_schedules_and_others_do_not() -> None:
    assert schedule(poisson(seed=7)) == schedule(poisson(seed=7))
    assert schedule(poisson(seed=7)) != schedule(poisson(seed=8))


@given(st.floats(0.1, 200), st.floats(0.5, 120), st.integers(0, 9))
def test_a_poisson_schedule_has_its_rate_and_stays_within_its_duration(rate: float, duration: float, seed: int) -> None:
    due = schedule(poisson(rate, duration, seed))
    assert len(due) == round(rate * duration)
    assert list(due) == sorted(due)
    assert all(0 <= at <= duration for at in due)


def test_the_gaps_of_a_poisson_schedule_are_exponential() -> None:
    due = schedule(poisson(rate=100, duration=100))
    gaps = [later - earlier for earlier, later in itertools.pairwise(due)]
    # Of an exponential distribution: standard deviation = mean, and the share above the mean is 1/e.
    mean = statistics.fmean(gaps)
    assert statistics.stdev(gaps) == pytest.approx(mean, rel=0.05)
    above = sum(gap > mean for gap in gaps) / len(gaps)
    assert above == pytest.approx(1 / math.e, abs=0.02)


def test_bursts_come_evenly_and_whole_at_the_mean_rate() -> None:
    due = schedule(LoadProfile(pattern=Pattern.BURST, rate=12, burst=6, duration=10))
    assert due[:6] == (0.0,) * 6
    assert sorted(set(due)) == pytest.approx([index * 0.5 for index in range(20)])
    assert len(due) == 120


def test_a_closed_loop_has_no_schedule() -> None:
    assert schedule(LoadProfile(pattern=Pattern.CLOSED, concurrency=4, duration=10)) == ()


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"rate": 0.0, "duration": 1.0}, "rate"),
        ({"rate": float("nan"), "duration": 1.0}, "rate"),
        ({"rate": 1.0, "duration": 0.0}, "duration"),
        ({"rate": 1.0, "duration": float("inf")}, "duration"),
        ({"rate": 1.0, "duration": 1.0, "burst": 0}, "burst"),
        ({"pattern": Pattern.CLOSED, "duration": 1.0}, "concurrency"),
    ],
)
def test_a_load_that_cannot_be_sent_is_refused(values: dict[str, float], named: str) -> None:
    with pytest.raises(UsageError, match=f"needs a {named} above 0"):
        LoadProfile(**values)  # type: ignore[arg-type]


def test_latencies_are_of_successful_requests_only() -> None:
    summary = summarise([record(10), record(20), record(30), record(1, ok=False)])
    assert (summary.requests, summary.errors) == (4, 1)
    assert (summary.mean_ms, summary.p50_ms, summary.p99_ms) == (20, 20, 30)


def test_a_run_without_a_success_has_no_latencies() -> None:
    summary = summarise([record(5, ok=False)])
    assert (summary.requests, summary.errors, summary.mean_ms, summary.p95_ms) == (1, 1, None, None)


@given(st.lists(st.floats(0, 1e5), min_size=1))
def test_percentiles_are_observed_latencies_in_order(latencies: list[float]) -> None:
    summary = summarise(record(ms) for ms in latencies)
    percentiles = [summary.p50_ms, summary.p95_ms, summary.p99_ms]
    assert set(percentiles) <= set(latencies)
    assert percentiles == sorted(value for value in percentiles if value is not None)


def test_a_record_is_a_line_of_a_captures_client_file() -> None:
    lines = [json.loads(one.line()) for one in (record(12.3456, t=1.5), record(7, ok=False, delay_ms=90))]
    assert lines[0] == {"t": 1.5, "model": "ensemble", "ms": 12.346, "ok": True, "code": 200, "delay_ms": 0.0}
    assert [(line["code"], line["ms"], line["delay_ms"]) for line in lines] == [(200, 12.346, 0.0), (503, 7.0, 90.0)]


def test_a_server_that_is_not_there_is_one_clear_error() -> None:
    pytest.importorskip("tritonclient.http")
    with pytest.raises(CollectError, match="check the address"):
        run_load(f"http://127.0.0.1:{Ports.free().http}", poisson(duration=1))
