"""Requests, batches and what a request waits for, each by a figure that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.signals.executions import BATCH_MARGINAL_COST, EXECUTION_SECONDS
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, MAX_BATCH_SIZE, QUEUE_LIMIT, WARMUPS
from diagnostics.signals.signal import Missing, Reading, Signal
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_SIZE,
    CLIENT_BATCH_SIZE,
    COMPUTE_SECONDS,
    PENDING,
    QUEUE_SECONDS,
    REQUEST_RATE,
    REQUEST_SECONDS,
    REQUESTS,
)
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind
from tests.builders import Stage, SyntheticTriton, model_config, only_between, view_of

STAGE = Stage("m", rate=20, execution=0.03, queue=0.2, input=0.001, output=0.002, config=model_config("m"))


def read(signal: Signal, stage: Stage, *without: BodyKind, reads: int = 13) -> Reading:
    return signal.read(view_of(SyntheticTriton(models=(stage,)).without(*without).window(reads), stage.name))


@pytest.mark.parametrize("without", [BodyKind.STATISTICS, BodyKind.METRICS])
@pytest.mark.parametrize(
    ("signal", "expected"),
    [
        (REQUESTS, 1200),
        (REQUEST_RATE, 20),
        (QUEUE_SECONDS, 0.2),
        (COMPUTE_SECONDS, 0.03),
        (REQUEST_SECONDS, 0.233),
        (EXECUTION_SECONDS, 0.033),
    ],
    ids=lambda value: value.name if isinstance(value, Signal) else "",
)
def test_either_source_tells_the_same(signal: Signal, expected: float, without: BodyKind) -> None:
    assert read(signal, STAGE, without).value == pytest.approx(expected)


def test_statistics_come_before_metrics() -> None:
    assert read(QUEUE_SECONDS, STAGE).source == "statistics"
    assert read(QUEUE_SECONDS, STAGE, BodyKind.STATISTICS).source == "metrics"


def test_a_request_computes_for_the_whole_time_of_its_batch() -> None:
    """Requests see (1 x 10 ms + 4 x 40 ms) / 5; executions take 25 ms on average."""
    stage = Stage("m", rate=50, batches={1: 0.5, 4: 0.5}, execution={1: 0.01, 4: 0.04})

    assert read(COMPUTE_SECONDS, stage).value == pytest.approx(0.034)
    assert read(EXECUTION_SECONDS, stage).value == pytest.approx(0.025)
    assert read(BATCH_SIZE, stage).value == pytest.approx(2.5)


def test_batches_that_clients_send_are_reported_from_those_that_triton_forms() -> None:
    sent = Stage("m", rate=10, client_batch=8, batches={8: 1.0}, execution=0.02)
    formed = Stage("m", rate=80, batches={8: 1.0}, execution=0.02)

    assert read(BATCH_SIZE, sent).value == read(BATCH_SIZE, formed).value == pytest.approx(8)
    assert read(CLIENT_BATCH_SIZE, sent).value == pytest.approx(8)
    assert read(CLIENT_BATCH_SIZE, formed).value == pytest.approx(1)


@pytest.mark.parametrize(
    ("execution", "cost"),
    [
        ({1: 0.010, 2: 0.011, 8: 0.017}, 0.1),
        ({1: 0.010, 2: 0.020, 8: 0.080}, 1.0),
        ({1: 0.010, 2: 0.010, 8: 0.010}, 0.0),
    ],
    ids=["a tenth", "linear", "free"],
)
def test_what_one_more_item_costs_is_a_share_of_a_batch_of_one(execution: dict[int, float], cost: float) -> None:
    stage = Stage("m", rate=50, batches={1: 0.4, 2: 0.3, 8: 0.3}, execution=execution)
    found = read(BATCH_MARGINAL_COST, stage)

    assert found.value == pytest.approx(cost, abs=0.01)
    assert found.low is not None
    assert found.low <= cost + 0.01
    assert (found.high or 0) >= cost - 0.01


def test_one_batch_size_does_not_tell_what_a_larger_one_costs() -> None:
    assert read(BATCH_MARGINAL_COST, STAGE).missing is Missing.TOO_FEW_EVENTS


def test_without_the_batch_table_the_cost_of_an_item_is_not_known() -> None:
    stage = Stage("m", rate=50, batches={1: 0.5, 4: 0.5}, execution={1: 0.01, 4: 0.04})

    assert read(BATCH_MARGINAL_COST, stage, BodyKind.STATISTICS).value is None


def test_arrivals_are_completions_and_the_growth_of_the_backlog() -> None:
    stage = replace(STAGE, pending=10, pending_growth=5.0)

    assert read(ARRIVAL_RATE, stage).value == pytest.approx(25)
    assert not read(ARRIVAL_RATE, stage).estimated


def test_a_backlog_that_drains_is_no_arrival() -> None:
    stage = replace(STAGE, pending=600, pending_growth=-10.0)

    assert read(ARRIVAL_RATE, stage).value == pytest.approx(10)


def test_without_the_pending_gauge_completions_stand_for_arrivals_and_say_so() -> None:
    found = read(ARRIVAL_RATE, STAGE, BodyKind.METRICS)

    assert found.value == pytest.approx(20)
    assert found.estimated


def test_what_waits_is_the_mean_over_the_reads_between_its_extremes() -> None:
    found = read(PENDING, replace(STAGE, pending=10, pending_growth=1.0))

    assert (found.value, found.low, found.high) == (40, 10, 70)


SETTINGS = model_config(
    "m",
    max_batch=16,
    batching={"max_queue_delay_microseconds": 5000, "default_queue_policy": {"max_queue_size": 8}},
    model_warmup=[{"name": "a", "batch_size": 1}, {"name": "b", "batch_size": 16}],
)


@pytest.mark.parametrize(
    ("signal", "there", "absent"),
    [
        (MAX_BATCH_SIZE, 16, 1),
        (DYNAMIC_BATCHING, 1, 0),
        (BATCH_DELAY, 0.005, 0),
        (QUEUE_LIMIT, 8, 0),
        (WARMUPS, 2, 0),
    ],
    ids=lambda value: value.name if isinstance(value, Signal) else "",
)
def test_settings_come_from_the_effective_configuration(signal: Signal, there: float, absent: float) -> None:
    assert read(signal, Stage("m", rate=1, config=SETTINGS)).value == pytest.approx(there)
    assert read(signal, Stage("m", rate=1, config=model_config("m"))).value == absent
    assert read(signal, Stage("m", rate=1)).missing is Missing.NOT_EXPORTED


def test_versions_add_up_to_their_model() -> None:
    """Weights are requests: 10/s wait 100 ms and 30/s wait 20 ms, 40 ms on average."""
    one = Stage("m", rate=10, execution=0.01, queue=0.1)
    two = replace(one, version="2", rate=30, queue=0.02)
    window = SyntheticTriton(models=(one, two)).window()

    assert REQUEST_RATE.read(view_of(window, "m", None)).value == pytest.approx(40)
    assert QUEUE_SECONDS.read(view_of(window, "m", None)).value == pytest.approx(0.04)
    assert QUEUE_SECONDS.read(view_of(window, "m", "2")).value == pytest.approx(0.02)


def test_the_rate_of_a_version_that_appeared_counts_over_its_own_time() -> None:
    other = replace(STAGE, name="other")
    window = SyntheticTriton(models=(other, STAGE), alter=only_between("m", 7, 99)).window(reads=13)

    assert REQUEST_RATE.read(view_of(window, "m")).value == pytest.approx(20)
    assert REQUEST_RATE.read(view_of(window, "m")).span == 30


class TestWhatIsMissing:
    """An absent number has its reason, never a zero."""

    def test_one_read_is_too_few(self) -> None:
        assert read(REQUESTS, STAGE, reads=1).missing is Missing.TOO_FEW_EVENTS

    def test_a_closed_source_is_not_exported(self) -> None:
        assert read(REQUESTS, STAGE, BodyKind.METRICS, BodyKind.STATISTICS).missing is Missing.NOT_EXPORTED

    def test_a_mean_over_no_request_is_idle(self) -> None:
        assert read(QUEUE_SECONDS, replace(STAGE, rate=0)).missing is Missing.IDLE

    def test_no_request_is_the_number_zero(self) -> None:
        assert read(REQUESTS, replace(STAGE, rate=0)).value == 0

    def test_durations_that_are_switched_off_are_disabled_while_requests_count(self) -> None:
        pages = [
            replace(one, body=b"\n".join(line for line in (one.body or b"").split(b"\n") if b"duration" not in line))
            for one in SyntheticTriton(models=(STAGE,), cpu_busy=None).scrapes()
            if one.kind is BodyKind.METRICS
        ]
        view = view_of(window_of(pages), "m")

        assert QUEUE_SECONDS.read(view).missing is Missing.DISABLED
        assert REQUESTS.read(view).value == 1200
