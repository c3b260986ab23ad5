"""What one server said: bodies become counters, gauges and failures to read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.window.counters import Counter, Opened
from diagnostics.window.window import METRICS, STATISTICS, ServerWindow, Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START, Counts, Stage, SyntheticTriton, model_config, only_between, restarted_at

STEADY = Stage("safety", rate=10, execution=0.02, queue=0.1)
KEY = ("safety", "1")


def server_of(window: Window) -> ServerWindow:
    return window.servers[SERVER]


def scrape(kind: BodyKind, at: float, body: str | None, error: str | None = None) -> Scrape:
    raw = body.encode() if body is not None else None
    return Scrape(server=SERVER, kind=kind, at=at, mono=at, body=raw, error=error)


def requests(window: Window, source: str = METRICS, key: tuple[str, str] = KEY) -> float | None:
    delta = server_of(window).tables[source][key].delta(window.start, window.end)
    return delta.get(Counter.SUCCESS) if delta else None


@pytest.mark.parametrize("source", [METRICS, STATISTICS])
def test_both_sources_count_the_same(source: str) -> None:
    window = SyntheticTriton(models=(STEADY,)).window(reads=13)

    assert requests(window, source) == pytest.approx(600)
    assert window.seconds == 60


def test_counters_split_by_gpu_uuid_are_summed() -> None:
    def page(plain: int, on_card: int) -> str:
        name = "nv_inference_request_success"
        return f'{name}{{model="m",version="1"}} {plain}\n{name}{{gpu_uuid="GPU-1",model="m",version="1"}} {on_card}\n'

    window = window_of([scrape(BodyKind.METRICS, 0, page(5, 100)), scrape(BodyKind.METRICS, 10, page(6, 140))])

    assert requests(window, key=("m", "1")) == 41


def test_a_value_that_is_no_number_is_absent() -> None:
    page = 'nv_inference_request_success{model="m",version="1"} Nan\n'
    window = window_of([scrape(BodyKind.METRICS, 0, page), scrape(BodyKind.METRICS, 10, page)])

    assert server_of(window).keys_seen() == []


def test_a_row_with_failures_alone_is_a_model_that_is_gone() -> None:
    page = 'nv_inference_request_failure{model="m",reason="OTHER",version="1"} 3\n'
    window = window_of([scrape(BodyKind.METRICS, 0, page), scrape(BodyKind.METRICS, 10, page)])

    assert server_of(window).keys_seen() == []


def test_failures_of_all_reasons_add_up_and_rejections_are_kept_apart() -> None:
    stage = replace(STEADY, failing={"REJECTED": 2.0, "BACKEND": 1.0})
    window = SyntheticTriton(models=(stage,)).window(reads=3)
    delta = server_of(window).tables[METRICS][KEY].delta(window.start, window.end)

    assert delta is not None
    assert delta.values[Counter.FAILURE] == 30
    assert delta.values[Counter.REJECTED] == 20


def test_one_read_gives_no_increase_and_a_window_without_length() -> None:
    window = SyntheticTriton(models=(STEADY,)).window(reads=1)

    assert requests(window) is None
    assert window.seconds == 0


def test_nothing_read_gives_an_empty_window() -> None:
    window = window_of([])

    assert (window.servers, window.start, window.end, window.seconds) == ({}, 0, 0, 0)


def test_unequal_intervals_are_measured_not_assumed() -> None:
    window = SyntheticTriton(models=(STEADY,), times=(0, 1, 3, 30, 31)).window()
    steps = server_of(window).tables[METRICS][KEY].steps

    assert [step.seconds for step in steps] == [1, 2, 27, 1]
    assert [step.values[Counter.SUCCESS] for step in steps] == [10, 20, 270, 10]


def test_a_restart_in_mid_window_loses_no_request_that_was_read() -> None:
    window = SyntheticTriton(models=(STEADY,), alter=restarted_at(6)).window(reads=13)

    assert requests(window) == pytest.approx(600)
    assert requests(window, STATISTICS) == pytest.approx(600)


@pytest.mark.parametrize("source", [METRICS, STATISTICS])
def test_a_model_that_vanishes_keeps_what_it_counted(source: str) -> None:
    window = SyntheticTriton(models=(STEADY,), alter=only_between("safety", 0, 6)).window(reads=13)

    assert requests(window, source) == pytest.approx(300)


@pytest.mark.parametrize("source", [METRICS, STATISTICS])
def test_a_version_loaded_in_mid_window_counts_from_its_first_request(source: str) -> None:
    other = replace(STEADY, name="other")
    window = SyntheticTriton(models=(STEADY, other), alter=only_between("safety", 4, 99)).window(reads=13)
    first = server_of(window).tables[source][KEY].steps[0]

    assert requests(window, source) == pytest.approx(450)
    assert (first.opened, first.from_zero) == (Opened.APPEARED, True)


def test_an_absurd_duration_costs_its_steps_and_no_more() -> None:
    def underflow(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        return {key: replace(row, queue=1.8e10) if number == 6 else row for key, row in rows.items()}

    window = SyntheticTriton(models=(STEADY,), alter=underflow).window(reads=13)
    delta = server_of(window).tables[STATISTICS][KEY].delta(window.start, window.end)

    assert delta is not None
    assert delta.values[Counter.QUEUE_SECONDS] / delta.values[Counter.SUCCESS] == pytest.approx(0.1)
    assert (delta.steps, delta.dropped) == (10, 2)


def test_a_failed_read_and_a_body_that_is_no_metrics_page_are_counted_with_their_reason() -> None:
    bodies = [
        scrape(BodyKind.METRICS, 0, None, error="connection refused"),
        scrape(BodyKind.METRICS, 1, "<html>sign in</html>"),
        scrape(BodyKind.STATISTICS, 1, '{"model_stats": ['),
    ]
    failures = server_of(window_of(bodies)).failures

    assert failures[BodyKind.METRICS].count == 2
    assert "html" in failures[BodyKind.METRICS].reason
    assert failures[BodyKind.STATISTICS].count == 1


def test_a_truncated_page_in_the_middle_is_one_longer_step() -> None:
    scrapes = SyntheticTriton(models=(STEADY,)).scrapes(reads=5)
    pages = [one for one in scrapes if one.kind is BodyKind.METRICS]
    cut = replace(pages[2], body=(pages[2].body or b"")[:-3])
    window = window_of([cut if one is pages[2] else one for one in scrapes])

    assert requests(window) == pytest.approx(200)
    assert len(server_of(window).tables[METRICS][KEY].steps) == 3


def test_a_wall_clock_that_jumps_back_changes_no_rate() -> None:
    jumped = [
        replace(one, at=one.at - 3600) if one.mono - START >= 30 else one
        for one in SyntheticTriton(models=(STEADY,)).scrapes(reads=13)
    ]
    window = window_of(jumped)
    delta = server_of(window).tables[METRICS][KEY].delta(window.start, window.end)

    assert delta is not None
    assert delta.values[Counter.SUCCESS] / delta.seconds == pytest.approx(10)


def test_a_gauge_is_summed_over_its_series_per_read() -> None:
    pages = [f'depth{{m="a",v="1"}} {i}\ndepth{{m="a",v="2"}} 10\ndepth{{m="b",v="1"}} 5\n' for i in range(3)]
    window = window_of(scrape(BodyKind.METRICS, i, page) for i, page in enumerate(pages))

    assert list(server_of(window).gauge("depth", {"m": "a"})) == [(0, 10), (1, 11), (2, 12)]
    assert list(server_of(window).gauge("depth", {"m": "c"})) == []


def test_a_configuration_is_filed_under_the_name_it_states() -> None:
    body = '{"name": "safety", "max_batch_size": 4}'
    window = window_of([replace(scrape(BodyKind.CONFIG, 0, body), name="file-name")])

    assert server_of(window).configs["safety"].max_batch_size == 4


def test_scrapes_given_in_any_order_make_the_same_window() -> None:
    scrapes = SyntheticTriton(models=(replace(STEADY, config=model_config("safety")),)).scrapes(reads=5)

    assert requests(window_of(reversed(scrapes))) == requests(window_of(scrapes))


def test_a_damaged_gpu_sample_is_left_out() -> None:
    triton = SyntheticTriton(models=(STEADY,), gpu={"utilization_gpu_percent": 50})
    scrapes = [
        replace(one, body=b"{") if one.kind is BodyKind.NVML and one.at == START else one
        for one in triton.scrapes(reads=4)
    ]

    assert len(window_of(scrapes).gpus) == 3
