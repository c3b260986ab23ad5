"""Evidence of which a part is missing or another server's: what it does not show is unknown, and no cause."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from diagnostics.checks.check import Fires, Outcome, Quiet, Unknown
from diagnostics.checks.gates import WAITS_BEHIND
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.signals.callers import HANDLING_SECONDS
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.fleet import TRAFFIC_CERTAINTY, TRAFFIC_RATIO
from diagnostics.signals.flow import REJECTED_REQUESTS
from diagnostics.signals.inner_calls import NESTED_SHARE
from diagnostics.signals.signal import Missing, Signal
from diagnostics.signals.stalls import LOAD_QUEUE_SHARE, STANDSTILL_SECONDS
from diagnostics.window.counters import MOST_JUMPS
from diagnostics.window.view import longest_boot
from diagnostics.window.window import STATISTICS, window_of
from diagnostics.wire.capture import open_capture
from diagnostics.wire.host import HostSample
from diagnostics.wire.model_config import parse_model_config
from diagnostics.wire.records import BodyKind, Scrape
from tests.benchmark.score import judged
from tests.builders import (
    START,
    Alter,
    Counts,
    Rows,
    Stage,
    SyntheticTriton,
    chain,
    explained,
    model_config,
    only_between,
    restarted_at,
    view_of,
)
from tests.builders_traces import Leg, call, export, exported, trace_id
from tests.builders_traffic import Did, reported, story_scrapes
from tests.captures.drops import FORBIDDEN, recordings
from tests.captures.recorded import explanation_of, scrapes_of
from tests.captures.variations import HALF_SEEN

TIMED = {"default_queue_policy": {"default_timeout_microseconds": 100_000}}


def outcome(explanation: Explanation, check: str, model: str) -> Outcome:
    """Return what a check said of a model."""
    (found,) = [r.outcome for r in explanation.results if r.check.id == check and r.subject.model == model]
    return found


def in_turn_with(factor: float, then: Alter = lambda _, rows: rows) -> Alter:
    """Return an alteration: every second read is answered by a server that has done `factor` times as much."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        reported = then(number, rows)
        return {key: row - _times(row, 1 - factor) for key, row in reported.items()} if number % 2 else reported

    return alter


def _times(row: Counts, factor: float) -> Counts:
    numbers = ("requests", "items", "executions", "seconds", "queue", "input", "infer", "output")
    batches = {size: (n * factor, seconds * factor) for size, (n, seconds) in row.batches.items()}
    return replace(row, **{name: getattr(row, name) * factor for name in numbers}, batches=batches)


def unsteady(triton: SyntheticTriton, source: str = STATISTICS) -> dict[str, bool]:
    """Return of which models the counters mean nothing."""
    tables = triton.window().servers["triton-0"].tables[source]
    return {model: table.unsteady for (model, _), table in tables.items()}


class TestSeveralServersBehindOneAddress:
    steady = tuple(Stage(name, rate=40, execution=0.005, queue=0.05) for name in "abc")

    def test_a_version_listed_too_shortly_to_show_it_is_doubted_with_the_others(self) -> None:
        triton = SyntheticTriton(models=self.steady, alter=in_turn_with(5.0, only_between("a", 1, 4)))

        assert len(triton.window().servers["triton-0"].tables[STATISTICS]["a", "1"].fell_at) <= MOST_JUMPS
        assert unsteady(triton)["a"]

    def test_what_stands_at_zero_is_no_witness_for_one_server(self) -> None:
        idle = tuple(Stage(name) for name in "wxyz")

        assert all(unsteady(SyntheticTriton(models=(*self.steady, *idle), alter=in_turn_with(5.0))).values())

    @pytest.mark.parametrize(("statistics", "metrics", "doubted"), [(3, 7, True), (3, 3, False), (3, 4, False)])
    def test_sources_that_fall_at_different_reads_are_no_server_that_restarts(
        self, statistics: int, metrics: int, doubted: bool
    ) -> None:
        """Twice in each source: at the same round or a neighbouring one they are two restarts, else four."""
        falls = {BodyKind.STATISTICS: (statistics, 10), BodyKind.METRICS: (metrics, 10)}
        scrapes = [
            scrape
            for kind, at in falls.items()
            for scrape in self.restarting(*at).without(*(set(falls) - {kind})).scrapes()
        ]
        tables = window_of(scrapes).servers["triton-0"].tables

        assert {table.unsteady for source in tables.values() for table in source.values()} == {doubted}

    def restarting(self, *reads: int) -> SyntheticTriton:
        def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
            last = max((read for read in reads if read <= number), default=None)
            return rows if last is None else {key: _times(row, 0.01 * (1 + number - last)) for key, row in rows.items()}

        return SyntheticTriton(models=self.steady, alter=alter)

    @pytest.mark.parametrize(("factor", "doubted"), [(0.3, True), (0.4, False)])
    def test_sources_that_count_the_same_and_disagree_are_of_several_servers(
        self, factor: float, doubted: bool
    ) -> None:
        other = SyntheticTriton(models=tuple(replace(stage, rate=factor * stage.rate) for stage in self.steady))
        whole = SyntheticTriton(models=self.steady)
        window = window_of([*whole.without(BodyKind.METRICS).scrapes(), *other.without(BodyKind.STATISTICS).scrapes()])
        tables = window.servers["triton-0"].tables

        assert {table.unsteady for source in tables.values() for table in source.values()} == {doubted}

    def test_a_model_that_is_reloaded_again_and_again_leaves_the_others_readable(self) -> None:
        def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
            key = ("a", "1")
            return {**rows, key: _times(rows[key], 0.1)} if number % 2 else rows

        assert unsteady(SyntheticTriton(models=self.steady, alter=alter)) == {"a": True, "b": False, "c": False}


@pytest.mark.parametrize("signal", [TRAFFIC_RATIO, TRAFFIC_CERTAINTY])
def test_a_replica_whose_counters_mean_nothing_is_not_one_without_traffic(signal: Signal) -> None:
    other = story_scrapes({("m", "1"): [Did(requests=40)] * 10}, server="triton-1")
    first = {kind: next(s.body for s in other if s.kind is kind) for kind in (BodyKind.METRICS, BodyKind.STATISTICS)}
    swapped = [replace(s, body=first[s.kind]) if int(s.at) % 4 else s for s in other]
    window = window_of([*story_scrapes({("m", "1"): [Did(requests=40)] * 10}), *swapped])

    assert signal.read(view_of(window, "m", None)).missing is Missing.RESET


class TestFailuresWithoutReasons:
    def reported(self, batching: Mapping[str, object]) -> Outcome:
        config = model_config("m", max_batch=8, batching=batching)
        stage = Stage("m", rate=40, execution=0.01, queue=0.09, failing={"REJECTED": 10.0}, config=config)
        return outcome(SyntheticTriton(models=(stage,)).without(BodyKind.METRICS).explain(), "request-failures", "m")

    def test_they_may_be_refusals_of_a_queue_that_refuses(self) -> None:
        found = self.reported(TIMED)

        assert isinstance(found, Unknown)
        assert found.signal == REJECTED_REQUESTS.name

    def test_they_are_the_models_where_no_queue_refuses(self) -> None:
        assert isinstance(self.reported({}), Fires)


@pytest.mark.parametrize(
    ("batching", "may"),
    [
        ({}, False),
        ({"default_queue_policy": {"max_queue_size": 4}}, True),
        (TIMED, True),
        ({"default_queue_policy": {"allow_timeout_override": True}}, True),
        ({"priority_levels": 2}, True),
    ],
)
def test_which_queues_may_refuse_a_request(batching: Mapping[str, object], may: bool) -> None:
    config = parse_model_config(json.dumps(model_config("m", max_batch=8, batching=batching)).encode())

    assert config.dynamic_batching is not None
    assert config.dynamic_batching.may_refuse is may


class TestCallsTracedAtAnotherTime:
    busy = Stage("caller", rate=20, execution=0.045, queue=0.15, config=model_config("caller"))

    def traced(self, *below: Leg) -> list[Scrape]:
        leg = Leg(model="caller", queue=0.01, compute=0.045, below=below)
        spans = [span for i in range(40) for span in call(trace_id(i + 1), leg, at=-600.0 + i)]
        return [*SyntheticTriton(models=(self.busy,)).scrapes(), exported(export(spans))]

    def test_a_model_that_called_others_then_is_unknown_now(self) -> None:
        found = outcome(
            explained(window_of(self.traced(Leg(model="callee", compute=0.04)))),
            "single-instance-serialization",
            "caller",
        )

        assert isinstance(found, Unknown)
        assert (found.signal, found.reason) == (NESTED_SHARE.name, Missing.STALE)

    def test_a_model_that_called_none_then_is_judged_as_one_untraced(self) -> None:
        assert isinstance(
            outcome(explained(window_of(self.traced())), "single-instance-serialization", "caller"), Fires
        )


class TestALineBehindTheStage:
    def reported(self, completed: float, behind: float, queue: float = 0.9, failing: float = 0.0) -> Outcome:
        """Return what is said of a stage that passes 50 a second on, of which fewer leave, after so long behind it."""
        chat = Stage(
            "chat",
            rate=completed,
            overhead=queue + 0.02 + behind,
            failing={"OTHER": 2 * failing},
            config=chain("chat", "pre", "llm"),
        )
        pre = Stage("pre", rate=50, execution=0.0195, queue=queue, config=model_config("pre"))
        llm = Stage("llm", rate=50, execution=0.0003, config=model_config("llm", backend="vllm"))
        return outcome(SyntheticTriton(models=(chat, pre, llm)).explain(), "single-instance-serialization", "pre")

    def test_what_would_not_wait_here_would_wait_there(self) -> None:
        # A line that lengthens by 6 a second makes requests wait 60 s · 6 ÷ 50 ÷ 2 = 3.6 s at least.
        found = self.reported(completed=44, behind=3.7)

        assert isinstance(found, Quiet)
        assert found.because == WAITS_BEHIND

    @pytest.mark.parametrize(
        ("completed", "behind", "queue", "failing"),
        [(49.5, 3.7, 0.9, 0.0), (44, 3.5, 0.9, 0.0), (48, 1.5, 2.0, 0.0), (44, 3.7, 0.9, 6.0)],
        ids=["no line lengthens", "others call it", "less behind than here", "the rest failed"],
    )
    def test_a_stage_without_such_a_line_behind_it_is_named(
        self, completed: float, behind: float, queue: float, failing: float
    ) -> None:
        assert isinstance(self.reported(completed, behind, queue, failing), Fires)


def set_back_by(scrape: Scrape, seconds: float) -> Scrape:
    """Return a scrape as a clock that was set back files it."""
    body = json.loads(scrape.body or b"") if scrape.kind is BodyKind.HOST else None
    moved = json.dumps({**body, "t": body["t"] - seconds}).encode() if body else scrape.body
    return replace(scrape, at=scrape.at - seconds, mono=scrape.mono - seconds, body=moved)


class TestMachineSamplesOutOfOrder:
    def sample(self, at: float, total: float | None) -> HostSample:
        return HostSample(at=at, cpu_total_seconds=total)

    @pytest.mark.parametrize(
        ("totals", "kept"),
        [
            ([1, 2, 3], [1, 2, 3]),
            ([8, 9, 1, 2, 3], [1, 2, 3]),
            ([1, 2, 3, 0, 1], [1, 2, 3]),
            ([8, 9, 1, 2], [1, 2]),
            ([1, None, 3], [1, None, 3]),
            ([], []),
        ],
    )
    def test_the_longest_run_whose_processor_time_grows_is_kept(
        self, totals: list[float | None], kept: list[float | None]
    ) -> None:
        samples = [self.sample(float(i), total) for i, total in enumerate(totals)]

        assert [one.cpu_total_seconds for one in longest_boot(samples)] == kept

    def test_processors_are_as_busy_as_before_their_clock_was_set_back(self) -> None:
        triton = SyntheticTriton(models=(Stage("m", rate=40, execution=0.01),), cpu_busy=0.95)
        hosts = [scrape for scrape in triton.scrapes() if scrape.kind is BodyKind.HOST]
        late = {scrape.at for scrape in hosts[8:]}
        set_back = [set_back_by(s, 600.0) if s.at in late else s for s in triton.scrapes()]

        assert HOST_CPU_BUSY.read(view_of(window_of(set_back), "m")).value == pytest.approx(0.95)


class TestWhatWaitedBeforeALoad:
    def share(self, *queues: float) -> float | None:
        steps = [Did(requests=40, queue=queue, anew=number == 5) for number, queue in enumerate(queues)]
        return LOAD_QUEUE_SHARE.read(view_of(reported({("m", "1"): steps}), "m")).value

    def test_it_is_not_what_the_load_brought_about(self) -> None:
        # Steady is 0.01; the load falls into the sixth step.
        assert self.share(*[0.01] * 4, 0.31, 0.31, *[0.01] * 6) == 0.0
        assert self.share(*[0.01] * 4, 0.11, 0.31, *[0.01] * 6) == pytest.approx(0.2 / 0.4)

    def test_a_queue_that_lengthened_up_to_it_would_have_gone_on(self) -> None:
        """As where an autoscaler loads a model with more instances because its queue is long."""
        assert self.share(*[0.01] * 2, 0.11, 0.21, 0.31, 0.41, 0.21, *[0.01] * 5) == pytest.approx(0.0)
        assert self.share(*[0.01] * 2, 0.11, 0.21, 0.31, 0.91, 0.21, *[0.01] * 5) == pytest.approx(0.5 / 1.7)

    def test_what_waits_only_during_it_is(self) -> None:
        assert self.share(*[0.01] * 5, 0.31, *[0.01] * 6) == pytest.approx(1.0)

    def test_what_ended_as_it_began_did_not_wait_for_it(self) -> None:
        assert self.share(*[0.01] * 4, 0.31, *[0.01] * 7) == pytest.approx(0.0)


@pytest.mark.parametrize(("held", "known"), [([0.03] * 20, True), ([0.6, *[0.0001] * 19], False)])
def test_one_request_that_the_frontend_held_long_is_not_what_it_holds_of_each(held: list[float], known: bool) -> None:
    spans = [
        span
        for i, seconds in enumerate(held)
        for span in call(trace_id(i + 1), Leg(model="m", compute=0.01), at=float(i), front=seconds)
    ]
    window = window_of(
        [*SyntheticTriton(models=(Stage("m", rate=10, execution=0.01),)).scrapes(), exported(export(spans))]
    )

    assert (HANDLING_SECONDS.read(view_of(window, "m", None)).value is not None) is known


@pytest.mark.parametrize(("done", "seconds"), [(-200, 0.0), (0, 600.0)], ids=["they fell", "they stand"])
def test_counters_that_fell_at_the_last_read_do_not_stand_still(done: int, seconds: float) -> None:
    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        return {key: _times(row, (400 + done) / row.requests) for key, row in rows.items()} if number == 5 else rows

    stage = Stage("m", rate=4, execution=0.1, pending=5)
    triton = SyntheticTriton(models=(stage,), before=80, times=(0, 5, 10, 15, 20, 620), alter=alter)

    assert STANDSTILL_SECONDS.read(view_of(triton.window(), "m")).value == seconds


def test_a_row_that_vanished_earlier_is_not_one_that_appears_now() -> None:
    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        kept = {"old": number < 5, "late": number > 8, "b": True}
        return {key: row for key, row in rows.items() if kept[key[0]]}

    stages = tuple(Stage(name, rate=10, execution=0.02) for name in ("old", "late", "b"))
    tables = SyntheticTriton(models=stages, alter=alter).window().servers["triton-0"].tables[STATISTICS]

    assert (tables["old", "1"].reads, tables["late", "1"].reads) == (5, 4)


def test_a_hole_before_failed_reads_is_as_unwatched_as_one_before_good_ones() -> None:
    times = [*range(0, 20, 2), *range(140, 160, 2)]
    triton = SyntheticTriton(
        models=(Stage("m", rate=10, execution=0.02),), times=times, alter=restarted_at(10), cpu_busy=None
    ).without(BodyKind.METRICS)
    failed = {times[10], times[11]}
    reported = [replace(s, body=None, error="HTTP 503") if s.at - START in failed else s for s in triton.scrapes()]
    steps = window_of(reported).servers["triton-0"].tables[STATISTICS]["m", "1"].steps

    assert not any(step.opens for step in steps)


# Three edits of every sixth recording, each recording others: every edit befalls some.
EDITED = [
    (name, edit)
    for number, name in enumerate(tuple(recordings())[::6])
    for edit in tuple(HALF_SEEN)[number % 9 :: 9][:3]
]


@pytest.mark.parametrize(("name", "edit"), EDITED)
def test_what_was_left_out_of_a_recording_makes_no_wrong_cause_and_no_health(name: str, edit: str) -> None:
    path, label = recordings()[name]
    found = judged(explanation_of(HALF_SEEN[edit](tuple(open_capture(path).scrapes()))), name, label)

    assert found.result not in FORBIDDEN, found


@pytest.mark.parametrize("edit", HALF_SEEN)
def test_each_edit_leaves_something_out(edit: str) -> None:
    chain, watched = (
        scrapes_of("cpu-handed-single-instance"),
        tuple(open_capture(recordings()["kind-0163"][0]).scrapes()),
    )

    assert any(list(HALF_SEEN[edit](whole)) != list(whole) for whole in (chain, watched))
