"""Which share of the time a model's instances execute, and over how many instances it spreads."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE, WAITING_SECONDS
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.tuning.service import DISPATCH_GAP
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import (
    SERVER,
    START,
    Counts,
    Stage,
    SyntheticTriton,
    chain,
    explained,
    host_body,
    model_config,
    view_of,
)
from tests.builders_traffic import Did, reported, story_scrapes

ONE = model_config("m", max_batch=8, groups=[{"kind": "KIND_CPU", "count": 1}])
TWO = model_config("m", max_batch=8, groups=[{"kind": "KIND_CPU", "count": 2}])


def hosts(seconds: int) -> list[Scrape]:
    """Return samples of a host with room, two seconds apart."""
    return [
        Scrape(
            server=SERVER,
            kind=BodyKind.HOST,
            at=START + at,
            mono=START + at,
            body=json.dumps(host_body(START + at, 0.2)).encode(),
            name="",
        )
        for at in range(0, seconds + 1, 2)
    ]


def busy(stage: Stage, *without: BodyKind, reads: int = 13) -> float:
    window = SyntheticTriton(models=(stage,)).without(*without).window(reads)
    value = INSTANCE_BUSY_SHARE.read(view_of(window, "m")).value
    assert value is not None
    return value


def test_batches_occupy_an_instance_once_however_many_requests_share_them() -> None:
    """80 requests/s in batches of 4 are 20 executions/s of 40 ms: 0.8, while the duration counters say 3.2."""
    stage = Stage("m", rate=80, batches={4: 1.0}, execution=0.04, config=ONE)

    assert busy(stage) == pytest.approx(0.8 + 20 * DISPATCH_GAP)


def test_a_request_that_waits_occupies_no_instance() -> None:
    stage = Stage("m", rate=20, queue=0.5, input=0.002, execution=0.02, output=0.003, config=ONE)

    assert busy(stage) == pytest.approx(20 * (0.025 + DISPATCH_GAP))


def test_the_share_is_per_instance() -> None:
    stage = Stage("m", rate=30, execution=0.02, config=TWO)

    assert busy(stage) == pytest.approx((0.6 + 30 * DISPATCH_GAP) / 2)


def test_from_metrics_alone_it_is_an_upper_bound_with_the_truth_in_its_interval() -> None:
    """Half the executions hold one request for 10 ms, half hold four for 40 ms: 25 ms on average, 34 ms per request."""
    stage = Stage("m", rate=50, batches={1: 0.5, 4: 0.5}, execution={1: 0.01, 4: 0.04}, config=ONE)
    truth = 20 * (0.025 + DISPATCH_GAP)
    window = SyntheticTriton(models=(stage,)).without(BodyKind.STATISTICS).window()
    bound = INSTANCE_BUSY_SHARE.read(view_of(window, "m"))

    assert busy(stage) == pytest.approx(truth)
    assert bound.value == pytest.approx(20 * (0.034 + DISPATCH_GAP))
    assert bound.estimated
    assert bound.low is not None
    assert bound.low < truth < (bound.high or 0)


def test_the_bound_never_says_more_than_all_the_time() -> None:
    stage = Stage("m", rate=150, batches={1: 0.5, 4: 0.5}, execution={1: 0.01, 4: 0.03}, config=ONE)

    assert busy(stage, BodyKind.STATISTICS) == 1.0


def test_one_request_per_execution_makes_the_metrics_exact() -> None:
    stage = Stage("m", rate=40, execution=0.02, config=ONE)
    window = SyntheticTriton(models=(stage,)).without(BodyKind.STATISTICS).window()
    reading = INSTANCE_BUSY_SHARE.read(view_of(window, "m"))

    assert reading.value == pytest.approx(40 * (0.02 + DISPATCH_GAP))
    assert not reading.estimated


def test_what_a_cache_answers_is_no_part_of_an_execution() -> None:
    """As many requests again are answered by the cache, and count as successes."""
    stage = Stage("m", rate=20, execution=0.02, config=ONE)
    hits = [20 * (100.0 + 5.0 * number) for number in range(13)]
    triton = SyntheticTriton(
        models=(stage,),
        alter=lambda _, rows: {key: replace(row, requests=2 * row.requests) for key, row in rows.items()},
        extra_metrics=lambda number: [f'nv_cache_num_hits_per_model{{model="m",version="1"}} {hits[number]:.0f}'],
    )
    view = view_of(triton.without(BodyKind.STATISTICS).window(), "m")

    assert EXECUTION_SECONDS.read(view).value == pytest.approx(0.02)
    assert not EXECUTION_SECONDS.read(view).estimated
    assert INSTANCE_BUSY_SHARE.read(view).value == pytest.approx(20 * (0.02 + DISPATCH_GAP))


def test_a_published_dump_of_a_full_instance_reads_full() -> None:
    """1,436 requests in 386 executions within 18.3 s; duration sums would say 4.3 busy instances."""
    dump = Counts(requests=1436, items=1436, executions=386, infer=78.984688, batches={4: (386, 18.025912)})
    triton = SyntheticTriton(
        models=(Stage("m", config=ONE),),
        times=(0, 18.3),
        alter=lambda number, rows: dict.fromkeys(rows, dump if number else Counts()),
    )

    assert INSTANCE_BUSY_SHARE.read(view_of(triton.window(), "m")).value == pytest.approx(0.988, abs=0.001)
    without = triton.without(BodyKind.STATISTICS).window()
    assert EXECUTION_SECONDS.read(view_of(without, "m")).value == pytest.approx(0.0550, abs=0.0001)


def test_without_configuration_nothing_is_known_of_it() -> None:
    window = SyntheticTriton(models=(Stage("m", rate=40, execution=0.02),)).window()

    assert INSTANCE_BUSY_SHARE.read(view_of(window, "m")).missing is Missing.NOT_EXPORTED


@pytest.mark.parametrize("without", [(), (BodyKind.STATISTICS,)], ids=["statistics", "metrics"])
@pytest.mark.parametrize(
    ("occupied", "more", "known"),
    [
        (2.0, {}, True),
        (2.3, {}, False),
        (6.0, {"backend": "tensorrt"}, True),
        (7.0, {"backend": "tensorrt"}, False),
        (7.0, {"backend": "vllm"}, True),
        (7.0, {"model_transaction_policy": {"decoupled": True}}, True),
    ],
)
def test_two_instances_that_did_the_work_of_more_are_not_those_of_the_server(
    occupied: float, more: Mapping[str, object], known: bool, without: tuple[BodyKind, ...]
) -> None:
    config = {**TWO, **more}
    stage = Stage("m", rate=50 * occupied, execution=0.02, config=config)
    view = view_of(SyntheticTriton(models=(stage,)).without(*without).window(), "m")

    assert INSTANCES.read(view).missing is (None if known else Missing.CONFLICTING)
    assert INSTANCE_BUSY_SHARE.read(view).missing is (None if known else Missing.CONFLICTING)


def test_executions_that_began_before_the_span_are_no_work_of_more_instances() -> None:
    """Two that took 60 s end in a span of 61 s that one instance has: 1.97 of it."""
    window = SyntheticTriton(
        models=(Stage("m", config=ONE),),
        times=(0, 61),
        alter=lambda number, rows: dict.fromkeys(
            rows, Counts(requests=2, items=2, executions=2, infer=120, batches={1: (2, 120)}) if number else Counts()
        ),
    ).window()

    assert INSTANCES.read(view_of(window, "m")).value == 1


@pytest.mark.parametrize(("working", "actionable"), [(1, ["batch-size-collapse"]), (5, [])])
def test_no_cause_is_found_by_a_count_of_instances_that_is_not_the_servers(working: int, actionable: list[str]) -> None:
    """One is configured; where five do the work, each of them is as busy as the one is."""
    config = model_config("m", max_batch=64, groups=[{"kind": "KIND_CPU", "count": 1}])
    stage = Stage("m", rate=45 * working, queue=0.12, execution=0.02, config=config)

    assert [one.check for one in SyntheticTriton(models=(stage,)).explain().actionable] == actionable


def test_an_idle_model_is_idle_not_free() -> None:
    window = SyntheticTriton(models=(Stage("m", config=ONE),)).window()

    assert INSTANCE_BUSY_SHARE.read(view_of(window, "m")).missing is Missing.IDLE


class TestCountersMoveOnCompletion:
    """One instance executes for 3 s at a time and is read every 2 s: 0, 1.5, 1.5, 0 of each interval."""

    TRITON = SyntheticTriton(
        models=(Stage("m", config=ONE),),
        times=[2.0 * i for i in range(31)],
        alter=lambda number, rows: {
            key: Counts(requests=n, items=n, executions=n, infer=3.0 * n, batches={1: (n, 3.0 * n)})
            for key in rows
            for n in [2 * number // 3]
        },
    )

    def test_single_intervals_jump_between_nothing_and_more_than_everything(self) -> None:
        steps = view_of(self.TRITON.window(), "m").steps("statistics")
        shares = [sum(batch.seconds for batch in step.batches.values()) / step.seconds for step in steps[:4]]

        assert shares == pytest.approx([0, 1.5, 1.5, 0])

    def test_a_single_interval_is_given_as_wide_as_it_is_uncertain(self) -> None:
        view = view_of(self.TRITON.window(), "m")
        reading = INSTANCE_BUSY_SHARE.read(replace(view, start=view.start + 2, end=view.start + 4))

        assert reading.estimated
        assert reading.low is not None
        assert reading.low <= 0.01
        assert (reading.high or 0) >= 2.9

    def test_a_minute_says_it_to_a_twentieth(self) -> None:
        reading = INSTANCE_BUSY_SHARE.read(view_of(self.TRITON.window(), "m"))

        assert reading.value == pytest.approx(1.0, abs=0.002)
        assert (reading.high or 0) - (reading.low or 0) == pytest.approx(0.1)
        assert not reading.estimated

    def test_a_rate_of_few_events_is_an_interval_that_holds_the_truth(self) -> None:
        view = view_of(self.TRITON.window(), "m")
        reading = REQUEST_RATE.read(replace(view, start=view.start + 2, end=view.start + 4))

        assert reading.low is not None
        assert reading.high is not None
        assert reading.low < 1 / 3 < reading.high

    def test_a_mean_of_fewer_than_five_executions_is_not_given(self) -> None:
        view = view_of(self.TRITON.window(), "m")
        reading = EXECUTION_SECONDS.read(replace(view, end=view.start + 6))

        assert reading.missing is Missing.TOO_FEW_EVENTS

    @given(execution=st.floats(0.01, 5.0), interval=st.floats(0.5, 10.0), reads=st.integers(2, 20))
    def test_whatever_the_rhythm_the_interval_holds_the_truth(
        self, execution: float, interval: float, reads: int
    ) -> None:
        """An instance that is always busy reads as such, within what counting on completion allows."""
        period = execution + DISPATCH_GAP

        def counted(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
            n = math.floor((100 + number * interval) / period)
            row = Counts(requests=n, items=n, executions=n, infer=n * execution, batches={1: (n, n * execution)})
            return dict.fromkeys(rows, row)

        triton = SyntheticTriton(models=(Stage("m", config=ONE),), interval=interval, alter=counted)
        reading = INSTANCE_BUSY_SHARE.read(view_of(triton.window(reads), "m"))

        if reading.value is not None:
            assert reading.low is not None
            assert reading.high is not None
            assert reading.low - 0.001 <= 1.0 <= reading.high + 0.001


class TestInstances:
    """Instances are counted per version, over all groups that execute and all GPUs they are put on."""

    @pytest.mark.parametrize(
        ("groups", "expected"),
        [
            ([{"kind": "KIND_CPU", "count": 3}], 3),
            ([{"kind": "KIND_GPU", "count": 2, "gpus": [0, 1]}], 4),
            ([{"kind": "KIND_GPU", "count": 2}], 2),
            ([{"kind": "KIND_GPU", "count": 2, "gpus": [0]}, {"kind": "KIND_CPU", "count": 1}], 3),
            ([{"kind": "KIND_CPU", "count": 2}, {"kind": "KIND_CPU", "count": 5, "passive": True}], 2),
        ],
    )
    def test_count_times_gpus_without_passive_groups(self, groups: list[dict[str, object]], expected: int) -> None:
        stage = Stage("m", rate=1, config=model_config("m", groups=groups))
        window = SyntheticTriton(models=(stage,), gpu={}).window()

        assert INSTANCES.read(view_of(window, "m")).value == expected

    def test_a_group_for_every_visible_gpu_is_unknown_while_no_gpu_was_seen(self) -> None:
        stage = Stage("m", rate=1, config=model_config("m", groups=[{"kind": "KIND_GPU", "count": 2}]))
        window = SyntheticTriton(models=(stage,)).window()

        assert INSTANCES.read(view_of(window, "m")).missing is Missing.NOT_EXPORTED

    def test_visible_gpus_are_taken_from_tritons_own_gauges_without_nvml(self) -> None:
        stage = Stage("m", rate=1, config=model_config("m", groups=[{"kind": "KIND_GPU", "count": 2}]))
        gauges = [f'nv_gpu_utilization{{gpu_uuid="GPU-{i}"}} 0.5' for i in range(4)]
        window = SyntheticTriton(models=(stage,), extra_metrics=lambda _: gauges).window()

        assert INSTANCES.read(view_of(window, "m")).value == 8

    def test_a_number_that_no_server_runs_is_not_believed(self) -> None:
        stage = Stage("m", rate=1, config=model_config("m", groups=[{"kind": "KIND_CPU", "count": 1_000_000}]))

        assert INSTANCES.read(view_of(SyntheticTriton(models=(stage,)).window(), "m")).missing is Missing.CONFLICTING

    def test_an_ensemble_has_none(self) -> None:
        config = chain("m", "a")
        window = SyntheticTriton(models=(Stage("m", rate=1, config=config),)).window()

        assert INSTANCES.read(view_of(window, "m")).missing is Missing.NOT_EXPORTED


class TestSinceRequestsWait:
    """A model that is hardly called at first, and then more than its one instance can do."""

    IDLE, FULL = Did(), Did(requests=40, seconds=0.55, queue=0.5, infer=0.05)
    CALM = Did(requests=10, infer=0.05)

    def late(self, *story: Did, rest: Sequence[Did] = ()) -> ModelView:
        return view_of(reported({("m", "1"): story, **({("n", "1"): rest} if rest else {})}, configs={"m": ONE}), "m")

    def test_it_lasts_from_the_first_read_with_a_wait_to_the_end(self) -> None:
        assert WAITING_SECONDS.read(self.late(*[self.IDLE] * 6, *[self.FULL] * 10)).value == 20
        assert WAITING_SECONDS.read(self.late(*[self.CALM] * 6, *[self.FULL] * 10)).value == 20

    def test_bursts_short_waits_and_those_of_all_the_window_are_none(self) -> None:
        burst = [self.CALM, self.FULL]

        assert WAITING_SECONDS.read(self.late(*burst * 8)).value is None
        assert WAITING_SECONDS.read(self.late(*[self.CALM] * 13, *[self.FULL] * 3)).value is None
        assert WAITING_SECONDS.read(self.late(*[self.FULL] * 16)).value is None

    def test_instances_that_are_busy_since_requests_wait_are_the_cause(self) -> None:
        """They are busy for five eighths of the window."""
        story = {("m", "1"): [self.IDLE] * 6 + [self.FULL] * 10, ("n", "1"): [self.CALM] * 16}
        found = explained(window_of([*story_scrapes(story, configs={"m": model_config("m")}), *hosts(32)]))

        assert [(one.check, one.subject.model) for one in found.actionable] == [("single-instance-serialization", "m")]
        assert "busy 100 % of the time" in found.actionable[0].summary
