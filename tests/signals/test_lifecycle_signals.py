from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.signals import fleet
from diagnostics.signals.availability import FAILED_VERSIONS, MODEL_WANTED, READY_VERSIONS
from diagnostics.signals.fleet import (
    EXECUTION_EXCESS,
    EXECUTION_RATIO,
    QUEUE_AHEAD,
    REPLICAS,
    TRAFFIC_CERTAINTY,
    TRAFFIC_RATIO,
)
from diagnostics.signals.flow import COUNTED_SHARE, IMPLAUSIBLE_STEPS
from diagnostics.signals.load_waits import HELD_SECONDS
from diagnostics.signals.mix import RATE_SHIFT, RATE_SHIFT_CERTAINTY, RATE_SHIFT_SECONDS, SIZE_SHIFT
from diagnostics.signals.signal import Missing
from diagnostics.signals.stalls import (
    LOAD_QUEUE_SECONDS,
    LOAD_QUEUE_SHARE,
    LOADS,
    STANDSTILL_BEFORE_RESTART,
    STANDSTILL_SECONDS,
    WAITING_NOW,
)
from diagnostics.signals.triton import PRIORITY_LEVELS, QUEUE_SPREAD, SEQUENCE_BATCHING
from diagnostics.signals.versions import VERSION_BEFORE, VERSION_EXTRA_SECONDS, VERSION_SINCE, VERSION_SLOWDOWN
from diagnostics.window.window import Window, window_of
from tests.builders import START, Stage, SyntheticTriton, chain, explained, model_config, view_of
from tests.builders_changes import config_read
from tests.builders_traffic import Did, indexed, logged, reported, story_scrapes

KEY = ("m", "1")
BUSY = Did(requests=40, infer=0.02)
ABSENT = Did(absent=True)
SUMMARY = 'nv_inference_queue_summary_us{{model="m",version="1",quantile="{}"}} {}'


class TestStandstills:
    def test_it_lasts_from_the_last_execution_to_the_last_read(self) -> None:
        view = view_of(reported({KEY: [BUSY] * 10 + [Did(pending=30), Did(pending=60), Did(pending=90)]}), "m")

        assert STANDSTILL_SECONDS.read(view).value == 4.0  # nothing waited yet at the read after the last execution
        assert WAITING_NOW.read(view).value == 90

    def test_requests_that_no_longer_wait_were_executed_where_counters_stand_still(self) -> None:
        """A proxy's cache repeats the counters, or they were lost and stay at zero."""
        story = [BUSY] * 10 + [Did(pending=waiting) for waiting in (6, 4, 2, 5, 2, 4, 7)]

        assert STANDSTILL_SECONDS.read(view_of(reported({KEY: story}), "m")).value == 4.0

    def test_an_idle_model_does_not_stand_still(self) -> None:
        assert STANDSTILL_SECONDS.read(view_of(reported({KEY: [BUSY] * 3 + [Did()] * 10}), "m")).value == 0

    def test_a_model_that_works_on_a_backlog_does_not_stand_still(self) -> None:
        assert STANDSTILL_SECONDS.read(view_of(reported({KEY: [Did(requests=40, pending=9)] * 6}), "m")).value == 0

    @pytest.mark.parametrize(
        ("stalled", "then", "seconds"),
        [
            (9, replace(BUSY, anew=True), 16.0),
            (9, BUSY, 0.0),
            (3, replace(BUSY, anew=True), 4.0),
        ],
        ids=["restarted", "went on", "short"],
    )
    def test_what_waited_until_the_counters_began_anew_was_lost(self, stalled: int, then: Did, seconds: float) -> None:
        waiting = [Did(pending=10 * number) for number in range(1, stalled + 1)]
        window = reported({KEY: [*[BUSY] * 5, *waiting, then, *[BUSY] * 8]})

        assert STANDSTILL_BEFORE_RESTART.read(view_of(window, "m")).value == seconds
        stated = [one.text for one in explained(window).symptoms if "began anew" in one.text]
        assert stated == (
            ["90 requests waited for m, of which none completed for 16 s; then its counters began anew"]
            if seconds > 10
            else []
        )


class TestLoads:
    WAITED = (*[BUSY] * 5, Did(requests=40, queue=0.5, infer=0.02, anew=True), *[BUSY] * 6)

    def test_the_queue_of_a_load_is_spread_over_all_requests(self) -> None:
        view = view_of(reported({KEY: self.WAITED}), "m")

        assert LOADS.read(view).value == 1
        assert LOAD_QUEUE_SECONDS.read(view).value == pytest.approx(0.5 / 12 * 24 / 30)  # 24 s, judged as half a minute
        assert LOAD_QUEUE_SHARE.read(view).value == 1.0

    def test_the_queue_of_a_load_is_spread_over_the_window_where_it_is_long(self) -> None:
        view = view_of(reported({KEY: [*self.WAITED, *[BUSY] * 12]}), "m")

        assert LOAD_QUEUE_SECONDS.read(view).value == pytest.approx(0.5 / 24)

    def test_what_waits_while_the_number_of_instances_changes_does_not_wait_for_the_load(self) -> None:
        """Triton takes instances away in place, and those that stay go on: there are fewer of them."""
        log = logged(
            'I0112 13:46:50.500000 1 model_lifecycle.cc:472] "loading: m:1"',
            "I0112 13:46:51.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\"",
        )
        read = [
            config_read(Stage("m", config=model_config("m", groups=[{"kind": "KIND_CPU", "count": count}])), at)
            for at, count in ((0.0, 4), (12.05, 1))
        ]
        view = view_of(window_of([*story_scrapes({KEY: self.WAITED}), log, *read]), "m")

        assert LOADS.read(view).value == 1
        assert (LOAD_QUEUE_SECONDS.read(view).value, HELD_SECONDS.read(view).value) == (0.0, 0.0)

    def test_a_queue_at_another_time_is_not_the_loads(self) -> None:
        story = [BUSY, Did(requests=40, queue=0.5, infer=0.02), *[BUSY] * 5, Did(requests=40, anew=True), *[BUSY] * 4]

        assert LOAD_QUEUE_SHARE.read(view_of(reported({KEY: story}), "m")).value == 0.0

    @pytest.mark.parametrize("anew", [True, False])
    def test_a_load_in_the_log_that_the_statistics_deny_is_at_no_known_time(self, anew: bool) -> None:
        """A clock that was set puts the load of the server's start among requests that wait for something else."""
        log = logged(
            'I0112 13:46:50.500000 1 model_lifecycle.cc:472] "loading: m:1"',
            "I0112 13:46:51.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\"",
        )
        story = [replace(did, anew=did.anew and anew) for did in self.WAITED]
        view = view_of(window_of([*story_scrapes({KEY: story}), log]), "m")

        assert LOADS.read(view).value == 1
        assert LOAD_QUEUE_SECONDS.read(view).missing is (None if anew else Missing.CONFLICTING)

    @pytest.mark.parametrize(("unread", "known"), [(2, True), (3, False)])
    def test_what_waited_around_a_load_while_nobody_read_is_not_known_to_have_waited_for_it(
        self, unread: int, known: bool
    ) -> None:
        story = [BUSY] * 5 + list(self.WAITED)
        behind = {START + 2.0 * (11 + number) for number in range(1, unread + 1)}
        read = [scrape for scrape in story_scrapes({KEY: story}) if scrape.at not in behind]

        assert LOAD_QUEUE_SHARE.read(view_of(window_of(read), "m")).missing is (None if known else Missing.STALE)

    def test_a_load_that_began_before_the_first_read_is_waited_for_from_then_on(self) -> None:
        log = logged(
            'I0112 13:46:39.500000 1 model_lifecycle.cc:472] "loading: m:1"',
            "I0112 13:46:43.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\"",
        )
        story = [replace(BUSY, pending=8), Did(requests=20, infer=0.02, anew=True), *[BUSY] * 14]
        view = view_of(window_of([*story_scrapes({KEY: story}), log]), "m")

        assert HELD_SECONDS.read(view).value == pytest.approx(8 * 2 / 620)  # 8 wait for one read of 2 s

    def test_without_a_load_none_is_waited_for(self) -> None:
        view = view_of(reported({KEY: [BUSY] * 8}), "m")

        assert (LOADS.read(view).value, LOAD_QUEUE_SECONDS.read(view).value) == (0, 0)


class TestVersions:
    def test_two_versions_are_compared_at_the_same_batch_size(self) -> None:
        slow = Did(requests=40, infer=0.05)
        window = reported({KEY: [BUSY] * 5 + [Did()] * 5, ("m", "2"): [ABSENT] * 5 + [slow] * 5})

        assert VERSION_SLOWDOWN.read(view_of(window, "m", "2")).value == pytest.approx(2.5)
        assert VERSION_EXTRA_SECONDS.read(view_of(window, "m", "2")).value == pytest.approx(0.03)
        assert VERSION_BEFORE.read(view_of(window, "m", "2")).value == 1
        assert VERSION_SLOWDOWN.read(view_of(window, "m", "1")).value == 1.0

    def test_some_slow_reads_after_a_reload_are_no_regression(self) -> None:
        """New instances start beside those that serve, and take the host's processors for some seconds."""
        slow = Did(requests=40, infer=0.06)
        story = [*[BUSY] * 5, replace(BUSY, anew=True), slow, slow, *[BUSY] * 6]

        assert VERSION_SLOWDOWN.read(view_of(reported({KEY: story}), "m")).value == pytest.approx(1.0)

    def test_a_version_that_is_slower_with_other_instances_may_share_what_they_use(self) -> None:
        slow = Did(requests=40, infer=0.04)
        scrapes = story_scrapes({KEY: [*[BUSY] * 5, replace(slow, anew=True), *[slow] * 6]})
        read = [
            config_read(Stage("m", config=model_config("m", groups=[{"kind": "KIND_CPU", "count": count}])), at)
            for at, count in ((0.0, 2), (12.05, 6))
        ]

        assert VERSION_SLOWDOWN.read(view_of(window_of(scrapes), "m")).value == pytest.approx(2.0)
        assert VERSION_SLOWDOWN.read(view_of(window_of([*scrapes, *read]), "m")).missing is Missing.CONFLICTING

    def test_larger_batches_are_no_regression(self) -> None:
        larger = Did(requests=40, infer=0.05, size=8)
        window = reported({KEY: [BUSY] * 5 + [Did()] * 5, ("m", "2"): [ABSENT] * 5 + [larger] * 5})

        assert VERSION_SLOWDOWN.read(view_of(window, "m", "2")).value == 1.0

    @pytest.mark.parametrize(
        ("beside", "now", "actionable"), [(0, 1.0, ["version-regression"]), (360, 0.1, [])], ids=["all", "a tenth"]
    )
    def test_what_a_slower_version_costs_since_it_serves_is_not_thinned_by_the_time_before(
        self, beside: int, now: float, actionable: list[str]
    ) -> None:
        """A quarter longer in the last quarter of the window: 6 ms of its mean, and 25 ms of each request now."""
        before, slow = Did(requests=40, infer=0.1), Did(requests=40, infer=0.125)
        aside = Did(requests=beside, infer=0.1)
        window = reported({KEY: [before] * 12 + [aside] * 4, ("m", "2"): [ABSENT] * 12 + [slow] * 4})
        over_the_window = 160 / (480 + 4 * beside + 160)

        assert VERSION_SINCE.read(view_of(window, "m", "2")).value == pytest.approx(now / over_the_window)
        assert [one.check for one in explained(window).actionable] == actionable

    def test_the_only_version_has_all_requests_also_where_the_clock_is_set_back(self) -> None:
        set_back = [replace(s, at=s.at - 60.0) if s.at > START + 12.0 else s for s in story_scrapes({KEY: [BUSY] * 12})]

        assert VERSION_SINCE.read(view_of(window_of(set_back), "m")).value == 1.0

    def test_first_cold_executions_are_left_out(self) -> None:
        cold = Did(requests=40, infer=2.0)
        window = reported({KEY: [BUSY] * 5 + [Did()] * 6, ("m", "2"): [ABSENT] * 5 + [cold] + [BUSY] * 5})

        assert VERSION_SLOWDOWN.read(view_of(window, "m", "2")).value == pytest.approx(1.0)

    @pytest.mark.parametrize("later", [0, 1, 2])
    def test_first_executions_are_left_out_also_if_the_version_was_loaded_a_while_before(self, later: int) -> None:
        cold = Did(requests=40, infer=2.0)
        new = [*[ABSENT] * 5, Did(), Did(), cold, *[BUSY] * later]
        window = reported({KEY: [*[BUSY] * 5, *[Did()] * (3 + later)], ("m", "2"): new})

        found = VERSION_SLOWDOWN.read(view_of(window, "m", "2"))
        assert found.value == (pytest.approx(1.0) if later else None)
        assert "version-regression" not in {one.check for one in explained(window).findings}

    def test_the_same_version_is_compared_with_itself_before_a_reload(self) -> None:
        slow = Did(requests=40, infer=0.06)
        view = view_of(reported({KEY: [BUSY] * 5 + [Did(requests=40, infer=0.06, anew=True)] + [slow] * 5}), "m")

        assert VERSION_SLOWDOWN.read(view).value == pytest.approx(3.0)
        assert VERSION_BEFORE.read(view).value == 0


class TestFleets:
    def fleet(self, *each: Did) -> Window:
        config = {"m": {"name": "m", "instance_group": [{"kind": "KIND_CPU", "count": 1}]}}
        scrapes = []
        for number, did in enumerate(each):
            scrapes += story_scrapes({KEY: [did] * 10}, server=f"triton-{number}", configs=config)
        return window_of(scrapes)

    def test_shares_and_queues_are_set_against_the_others(self) -> None:
        window = self.fleet(Did(requests=80, queue=0.3), Did(requests=20, queue=0.01), Did(requests=20, queue=0.01))
        view = view_of(window, "m", None)

        assert REPLICAS.read(view).value == 3
        assert TRAFFIC_RATIO.read(view).value == pytest.approx(2.0)
        assert QUEUE_AHEAD.read(view).value == pytest.approx(0.29)
        # 800 of 1200 where 400 are due, ± the square root of 1200 · 1/3 · 2/3.
        assert TRAFFIC_CERTAINTY.read(view).value == pytest.approx(400 / (1200 * 2 / 9) ** 0.5)

    def test_executions_are_set_against_the_others(self) -> None:
        window = self.fleet(Did(requests=20, infer=0.09), Did(requests=20, infer=0.03), Did(requests=20, infer=0.03))
        view = view_of(window, "m", None)

        assert EXECUTION_RATIO.read(view).value == pytest.approx(3.0)
        assert EXECUTION_EXCESS.read(view).value == pytest.approx(0.06)

    def test_larger_batches_are_not_compared(self) -> None:
        window = self.fleet(Did(requests=20, infer=0.09, size=8), Did(requests=20, infer=0.03))

        assert EXECUTION_RATIO.read(view_of(window, "m", None)).missing is Missing.IDLE

    def test_each_replica_is_read_once_however_many_are_compared_with_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read, work = list[str](), fleet._work
        monkeypatch.setattr(fleet, "_work", lambda view: read.append(view.server.name) or work(view))
        window = self.fleet(*[Did(requests=20, infer=0.03)] * 4)
        for name in ("triton-0", "triton-1", "triton-2", "triton-3"):
            view = replace(view_of(window, "m", None), server=window.servers[name])
            assert EXECUTION_RATIO.read(view).value == pytest.approx(1.0)

        assert sorted(read) == ["triton-0", "triton-1", "triton-2", "triton-3"]

    def test_one_server_has_no_peers(self) -> None:
        view = view_of(self.fleet(Did(requests=20)), "m", None)

        assert REPLICAS.read(view).value == 1
        assert TRAFFIC_RATIO.read(view).missing is Missing.IDLE


class TestShifts:
    def test_a_rate_that_rises_for_good_is_a_shift_with_its_latencies(self) -> None:
        view = view_of(reported({KEY: [Did(requests=40)] * 8 + [Did(requests=120, seconds=0.25)] * 8}), "m", None)

        assert RATE_SHIFT.read(view).value == pytest.approx(3.0)
        assert RATE_SHIFT_SECONDS.read(view).value == pytest.approx(0.15)
        assert (RATE_SHIFT_CERTAINTY.read(view).value or 0) > 4.75

    def test_a_rate_that_rises_and_falls_again_is_none(self) -> None:
        story = [Did(requests=40)] * 6 + [Did(requests=120)] * 4 + [Did(requests=40)] * 6

        assert RATE_SHIFT.read(view_of(reported({KEY: story}), "m", None)).value == 1.0

    def test_requests_that_grow_are_a_shift(self) -> None:
        view = view_of(reported({KEY: [Did(requests=40)] * 8 + [Did(requests=40, size=4)] * 8}), "m", None)

        assert SIZE_SHIFT.read(view).value == pytest.approx(4.0)

    def test_requests_that_are_no_longer_answered_from_a_cache_did_not_grow(self) -> None:
        """Requests that the response cache answers execute no item: what they hold is not counted."""
        story = [Did(requests=40, size=0)] * 8 + [Did(requests=40, seconds=0.4)] * 8

        assert SIZE_SHIFT.read(view_of(reported({KEY: story}), "m", None)).value is None


def test_a_version_that_takes_over_between_two_reads_is_no_stop_of_answers() -> None:
    """Between two reads the old one answers 30 requests and the new one 12; both are answers of the model."""
    gone, later = Did(absent=True), [Did(requests=60)] * 6
    story = {
        ("m", "1"): [*[Did(requests=40)] * 6, Did(requests=30), *[gone] * 6],
        ("m", "2"): [*[gone] * 6, Did(requests=12), *later],
    }
    view = view_of(reported(story), "m", None)

    assert LOADS.read(view_of(reported(story), "m", "2")).value == 1
    assert HELD_SECONDS.read(view).value == 0.0


class TestAvailability:
    def test_the_newest_index_counts(self) -> None:
        scrapes = story_scrapes({KEY: [BUSY] * 4})
        index = indexed(6.0, ("m", "1", "READY", ""), ("m", "2", "UNAVAILABLE", "no such file"))
        view = view_of(window_of([*scrapes, index]), "m", None)

        assert (FAILED_VERSIONS.read(view).value, READY_VERSIONS.read(view).value) == (1, 1)
        assert MODEL_WANTED.read(view).value == 1

    def test_an_unloaded_version_did_not_fail(self) -> None:
        index = indexed(6.0, ("m", "1", "UNAVAILABLE", "unloaded"))
        view = view_of(window_of([*story_scrapes({KEY: [BUSY] * 4}), index]), "m", None)

        assert FAILED_VERSIONS.read(view).value == 0

    def test_without_an_index_nothing_is_known(self) -> None:
        assert FAILED_VERSIONS.read(view_of(reported({KEY: [BUSY] * 4}), "m", None)).missing is Missing.NOT_EXPORTED


class TestPlausibility:
    def test_a_duration_below_zero_is_an_implausible_step(self) -> None:
        def underflow(read: int, rows: dict) -> dict:  # type: ignore[type-arg]
            return {key: replace(row, queue=1.8e13) if read == 4 else row for key, row in rows.items()}

        window = SyntheticTriton(models=(Stage("m", rate=10, execution=0.01),), alter=underflow).window(10)

        assert (IMPLAUSIBLE_STEPS.read(view_of(window, "m")).value or 0) >= 1

    def test_a_member_that_counts_half_of_its_ensembles_requests_stands_out(self) -> None:
        stages = (
            Stage("chat", rate=20, config=chain("chat", "a", "b")),
            Stage("a", rate=20, execution=0.01),
            Stage("b", rate=10, execution=0.01),
        )
        window = SyntheticTriton(models=stages).window(10)

        assert COUNTED_SHARE.read(view_of(window, "b")).value == pytest.approx(0.5, rel=0.05)
        assert COUNTED_SHARE.read(view_of(window, "a")).value == pytest.approx(1.0, rel=0.05)


class TestSchedulers:
    def window(self, *, high: float = 900_000, middle: float = 20_000, **batching: object) -> object:
        config = {"name": "m", "dynamic_batching": batching} if batching else {"name": "m", "sequence_batching": {}}
        triton = SyntheticTriton(
            models=(Stage("m", rate=10, execution=0.01, config=config),),
            extra_metrics=lambda _: [SUMMARY.format("0.95", high), SUMMARY.format("0.5", middle)],
        )
        return triton.window(8)

    def test_settings_are_read(self) -> None:
        assert PRIORITY_LEVELS.read(view_of(self.window(priority_levels=3), "m")).value == 3  # type: ignore[arg-type]
        assert SEQUENCE_BATCHING.read(view_of(self.window(), "m")).value == 1  # type: ignore[arg-type]

    def test_the_spread_of_waits_is_a_ratio_of_quantiles(self) -> None:
        assert QUEUE_SPREAD.read(view_of(self.window(), "m")).value == 45  # type: ignore[arg-type]

    def test_a_queue_without_waits_has_no_spread(self) -> None:
        window = self.window(high=900, middle=3)

        assert (QUEUE_SPREAD.read(view_of(window, "m")).value or 0) < 1  # type: ignore[arg-type]
