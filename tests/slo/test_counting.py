from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.slo.bins import Tally
from diagnostics.slo.counting import Batch, from_averages, from_traces, of_buckets, tally
from diagnostics.slo.report import silence_of
from diagnostics.slo.slo import Promise, Triton
from diagnostics.window.window import Window, window_of
from diagnostics.wire.records import BodyKind
from tests.builders import SERVER, START, Stage, SyntheticTriton, ensemble_config, model_config, restarted_at

BOUNDS = (0.1, 0.25, 0.5, 1.0, math.inf)
TIMES = st.lists(st.floats(0.001, 5.0), min_size=1, max_size=60)
EVER = (START - 1, START + 1e6)


def counted(window: Window, promise: Promise, seconds: float | None = None, **more: object) -> Tally:
    sli = Triton(promise=promise, model="m", seconds=seconds, **more)  # type: ignore[arg-type]
    found = tally(sli, window, SERVER, *EVER)
    assert found is not None
    return found


def histogram(total: int, below: Sequence[tuple[str, int]], model: str = "m") -> list[str]:
    name = "nv_inference_first_response_histogram_ms"
    labels = f'model="{model}",version="1"'
    rows = [f'{name}_bucket{{{labels},le="{le}"}} {count}' for le, count in (*below, ("+Inf", total))]
    return [f"# TYPE {name} histogram", *rows, f"{name}_count{{{labels}}} {total}"]


@settings(max_examples=40)
@given(TIMES, st.floats(0.01, 4.0))
def test_averages_bound_what_they_cannot_count(times: list[float], limit: float) -> None:
    truth = sum(one > limit for one in times)
    half = len(times) // 2
    steps = [Batch(float(i), len(part), sum(part)) for i, part in enumerate((times[:half], times[half:])) if part]
    found = from_averages(steps, limit)
    assert found.low <= truth <= found.high + 1e-6
    assert found.bad == found.low


@settings(max_examples=40)
@given(TIMES, st.floats(0.01, 4.0))
def test_buckets_bound_the_requests_between_them_and_count_at_their_bounds(times: list[float], limit: float) -> None:
    below = {bound: float(sum(one <= bound for one in times)) for bound in BOUNDS}
    found = of_buckets(below, limit)
    assert found.low <= sum(one > limit for one in times) <= found.high
    assert found.low <= found.bad <= found.high
    exact = of_buckets(below, 0.25)
    assert exact.counted
    assert exact.bad == sum(one > 0.25 for one in times)


@pytest.mark.parametrize(("size", "share"), [(5, 0.3), (20, 0.05), (60, 0.5)])
def test_a_sample_of_traces_holds_the_truth_most_of_the_time(size: int, share: float) -> None:
    random = Random(size)
    everything = [1.0 if random.random() < share else 0.1 for _ in range(600)]
    truth, hits = sum(one > 0.5 for one in everything), 0
    for _ in range(200):
        found = from_traces(random.sample(everything, size), 600.0, 0.5)
        assert found is not None
        hits += found.low <= truth <= found.high
    assert hits >= 180


def test_when_all_requests_are_traced_each_is_counted() -> None:
    found = from_traces([0.1] * 95 + [0.9] * 5, 100.0, 0.5)
    assert found is not None
    assert found.counted
    assert found.bad == 5


def test_too_few_traces_say_nothing() -> None:
    assert from_traces([0.1, 0.9], 100.0, 0.5) is None


def test_failures_are_counted_whatever_their_reason_but_clients_own() -> None:
    stage = Stage("m", rate=8, execution=0.01, failing={"BACKEND": 1, "OTHER": 1, "CANCELED": 5})
    found = counted(SyntheticTriton(models=(stage,)).window(), Promise.AVAILABILITY)
    assert (found.total, found.bad, found.source) == (600.0, 120.0, "metrics")


def without_failures(*kinds: BodyKind) -> Window:
    """Return a window whose pages tell of no failures, and whose other kinds were not read."""
    stage = Stage("m", rate=8, execution=0.01, failing={"BACKEND": 2})
    scrapes = SyntheticTriton(models=(stage,)).without(*kinds).scrapes()
    return window_of(
        [
            replace(s, body=b"\n".join(line for line in (s.body or b"").split(b"\n") if b"request_failure" not in line))
            for s in scrapes
        ]
    )


def test_where_failures_are_not_counted_no_request_is_known_to_be_good() -> None:
    window, sli = without_failures(BodyKind.STATISTICS), Triton(promise=Promise.AVAILABILITY, model="m")

    assert tally(sli, window, SERVER, *EVER) is None
    assert silence_of(sli, window).startswith("failures of m are not counted")


def test_a_model_that_is_not_called_is_reported_with_those_that_are() -> None:
    idle, busy = Stage("chat", rate=0), Stage("embedder", rate=5)
    sli = Triton(promise=Promise.AVAILABILITY, model="chat")

    stated, quiet = (silence_of(sli, SyntheticTriton(models=models).window()) for models in ((idle, busy), (idle,)))

    assert "no request to chat ended between two reads; requests went to embedder; look again" in stated
    assert "no request to chat ended between two reads; look again" in quiet


def test_where_the_page_counts_no_failures_the_statistics_do() -> None:
    found = counted(without_failures(), Promise.AVAILABILITY)

    assert (found.total, found.bad, found.source) == (600.0, 120.0, "statistics")


def test_an_ensembles_failures_are_halved_as_it_counts_them_twice() -> None:
    whole = Stage("m", rate=8, failing={"OTHER": 4}, config=ensemble_config("m", ("part", ("a",), ("b",))))
    part = Stage("part", rate=8, execution=0.01, config=model_config("part"))
    found = counted(SyntheticTriton(models=(whole, part)).window(), Promise.AVAILABILITY)
    assert (found.total, found.bad) == (600.0, 120.0)


def test_a_restart_is_no_request_and_loses_none_after_it() -> None:
    stage = Stage("m", rate=10, execution=0.01, failing={"BACKEND": 1})
    plain = counted(SyntheticTriton(models=(stage,)).window(), Promise.AVAILABILITY)
    found = counted(SyntheticTriton(models=(stage,), alter=restarted_at(6)).window(), Promise.AVAILABILITY)
    assert (found.total, found.bad) == (plain.total, plain.bad)


def test_statistics_alone_count_too() -> None:
    stage = Stage("m", rate=8, execution=0.01, failing={"OTHER": 2})
    found = counted(SyntheticTriton(models=(stage,)).without(BodyKind.METRICS).window(), Promise.AVAILABILITY)
    assert (found.total, found.bad, found.source) == (600.0, 120.0, "statistics")


def timed(lines: object = lambda _: (), *, decoupled: bool = False, config: bool = True) -> Window:
    policy = {"model_transaction_policy": {"decoupled": decoupled}}
    stage = Stage("m", rate=10, execution=0.2, config=model_config("m", **policy) if config else {})
    return SyntheticTriton(models=(stage,), extra_metrics=lines).window()  # type: ignore[arg-type]


def _first_responses(number: int) -> Iterable[str]:
    total = 1000 + number * 50
    return histogram(total, [("100", total // 2), ("500", total - 5 * number)])


def test_the_histogram_of_first_responses_counts_what_answers_once() -> None:
    window = timed(_first_responses)
    for promise in (Promise.LATENCY, Promise.FIRST_TOKEN):
        found = counted(window, promise, 0.5)
        assert (found.total, found.bad, found.low, found.high) == (600.0, 60.0, 60.0, 60.0)
        assert found.source == "histogram"


def test_of_answers_in_parts_the_first_is_timed_and_the_whole_bounded_by_averages() -> None:
    window = timed(_first_responses, decoupled=True)
    assert counted(window, Promise.FIRST_TOKEN, 0.5).bad == 60.0
    whole = counted(window, Promise.LATENCY, 0.5)
    assert (whole.source, whole.low, whole.high) == ("averages", 0.0, 240.0)  # 600 requests of 200 ms


def test_without_configuration_a_late_first_answer_is_late_and_any_other_may_be() -> None:
    found = counted(timed(_first_responses, config=False), Promise.LATENCY, 0.5)
    assert (found.bad, found.low, found.high) == (60.0, 60.0, 240.0)


def test_a_limit_between_two_buckets_is_an_interval_that_averages_narrow() -> None:
    found = counted(timed(_first_responses), Promise.LATENCY, 0.4)
    assert not found.counted
    assert (found.low, found.high) == (60.0, 300.0)
    assert 60.0 < found.bad < 300.0


def test_quantiles_say_between_which_shares_the_late_ones_are() -> None:
    def lines(_: int) -> Iterable[str]:
        for quantile, microseconds in ((0.5, 100_000), (0.9, 300_000), (0.99, 900_000)):
            labels = f'model="m",version="1",quantile="{quantile}"'
            yield f"nv_inference_request_summary_us{{{labels}}} {microseconds}"

    found = counted(timed(lines), Promise.LATENCY, 0.5)
    assert found.source == "summary"
    assert (found.low, found.high) == (pytest.approx(600 * 0.009), pytest.approx(600 * 0.11))


def test_series_of_replicas_and_versions_are_counted_once_each() -> None:
    one = SyntheticTriton(models=(Stage("m", rate=10, failing={"OTHER": 1}), Stage("m", rate=5, version="2")))
    scrapes = one.scrapes()
    window = window_of([*scrapes, *(replace(scrape, server="triton-1") for scrape in scrapes)])
    sli = Triton(promise=Promise.AVAILABILITY, model="m")
    found = [tally(sli, window, name, *EVER) for name in window.servers]
    assert [(one.total, one.bad) for one in found if one] == [(960.0, 60.0)] * 2


@settings(max_examples=30)
@given(st.lists(st.integers(0, 12), min_size=0, max_size=6))
def test_counting_span_by_span_counts_each_request_once(cuts: list[int]) -> None:
    window = _STEADY
    sli = Triton(promise=Promise.AVAILABILITY, model="m")
    moments = [START - 1, *sorted(START + 5.0 * cut for cut in cuts), START + 1e6]
    parts = [tally(sli, window, SERVER, a, b) for a, b in pairwise(moments)]
    assert sum(one.total for one in parts if one) == 660.0
    assert sum(one.bad for one in parts if one) == 60.0


_STEADY = SyntheticTriton(models=(Stage("m", rate=10, failing={"BACKEND": 1}),)).window()


def test_tags_pick_the_tenants_models_and_a_model_elsewhere_has_no_part() -> None:
    window = _STEADY
    assert tally(Triton(promise=Promise.AVAILABILITY, model="other"), window, SERVER, *EVER) is None
    tagged = Triton(promise=Promise.AVAILABILITY, model="m", tags=(("tenant", "acme"),))
    assert tally(tagged, window, SERVER, *EVER) is None


def test_bounds_that_contradict_the_events_counted_are_not_applied() -> None:
    found = Tally(total=100, bad=50, low=40, high=60, source="traces")
    assert found.within(Tally(total=10, bad=0, low=0, high=1, source="averages")) == found
    assert found.within(Tally(total=100, bad=0, low=45, high=48, source="averages")).bad == 48
