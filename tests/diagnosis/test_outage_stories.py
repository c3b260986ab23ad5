"""An outage of what is asked for is the first cause, what looks like one is not, and no outage is healthy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.incident import IncidentBook, IncidentChange, IncidentTransition
from diagnostics.diagnosis.link import CAUSED_BY, OUTAGE, follows_outage
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import START, Counts, Stage, SyntheticTriton, chain, model_config
from tests.builders import explained as explained_window
from tests.builders_traffic import Did, indexed, sent, story_scrapes

BUSY, IDLE, AWAY = Did(requests=40, infer=0.02, seconds=0.021), Did(), Did(absent=True)
READY, GONE = ("READY", ""), ("UNAVAILABLE", "unloaded")
M, OTHER = ("m", "1"), ("other", "1")
CONFIGS = {"m": model_config("m"), "other": model_config("other")}
# Seconds: it goes after the read at 20 and is back at the one at 30.
STEPS = 22
OUTAGE_STEPS = range(10, 15)


def away(before: Did = BUSY, after: Did = BUSY, steps: range = OUTAGE_STEPS) -> list[Did]:
    return [AWAY if n in steps else before if n < steps.start else after for n in range(STEPS)]


def index(
    model: str = "m", steps: range = OUTAGE_STEPS, meanwhile: tuple[str, str] = GONE, **more: str
) -> list[Scrape]:
    """Return an index read after each step; the model is not ready after those in which it is away."""
    others = [(name, "1", state, "") for name, state in {"other": "READY", **more}.items()]
    return [
        indexed(2.0 * number, (model, "1", *(meanwhile if number - 1 in steps else READY)), *others)
        for number in range(STEPS + 1)
    ]


def explained(*scrapes: Sequence[Scrape], without: Sequence[BodyKind] = ()) -> Explanation:
    return explained_window(window_of([s for part in scrapes for s in part if s.kind not in without]))


def reported(story: Sequence[Did], other: Sequence[Did] = (BUSY,) * STEPS) -> list[Scrape]:
    return story_scrapes({M: story, OTHER: other}, configs=CONFIGS)


def causes(explanation: Explanation) -> list[tuple[str, str | None]]:
    return [(finding.check, finding.subject.model) for finding in explanation.actionable]


class TestAnOutage:
    @pytest.mark.parametrize("without", [(), (BodyKind.INDEX,), (BodyKind.STATISTICS,), (BodyKind.METRICS,)])
    def test_a_model_that_was_unloaded_under_load_and_loaded_again_is_the_cause(
        self, without: Sequence[BodyKind]
    ) -> None:
        explanation = explained(reported(away()), index(), without=without)

        assert causes(explanation) == [(OUTAGE, "m")]
        # Twenty requests a second, for eight to twelve seconds.
        assert explanation.actionable[0].impact.share_of_requests_failed == pytest.approx(200 / 880, abs=0.06)
        assert explanation.actionable[0].onset is not None
        assert explanation.actionable[0].onset.at == START + 22.0

    def test_one_that_is_still_away_is_critical_however_short_that_is(self) -> None:
        explanation = explained(reported(away(steps=range(20, STEPS))), index(steps=range(20, STEPS)))

        assert causes(explanation) == [(OUTAGE, "m")]
        assert explanation.actionable[0].severity == "critical"
        assert "has been unavailable" in explanation.actionable[0].summary

    def test_one_that_began_before_the_window_is_seen_when_requests_come_at_once_after_it(self) -> None:
        explanation = explained(reported(away(steps=range(6))), index(steps=range(-1, 6)))

        assert causes(explanation) == [(OUTAGE, "m")]

    def test_a_failed_load_that_leaves_no_version_tells_its_reason(self) -> None:
        meanwhile = ("UNAVAILABLE", "weights are missing")
        explanation = explained(
            reported(away(steps=range(10, STEPS))), index(steps=range(10, STEPS), meanwhile=meanwhile)
        )

        assert causes(explanation) == [(OUTAGE, "m")]
        assert "its load failed (weights are missing)" in explanation.actionable[0].summary

    def test_clients_tell_how_many_requests_failed(self) -> None:
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 22.0, 30.0))
        (finding,) = explained(reported(away()), index(), [record]).actionable

        assert "160 requests were refused" in finding.summary
        assert finding.confidence == 0.95

    def test_a_hundred_failures_of_clients_tell_of_a_model_that_no_counter_ever_listed(self) -> None:
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 0.0, 44.0))
        explanation = explained(reported([AWAY] * STEPS), index(steps=range(-1, STEPS)), [record])

        assert causes(explanation) == [(OUTAGE, "m")]

    def test_what_is_cold_once_it_is_back_is_its_consequence(self) -> None:
        story = away()
        story[15] = replace(BUSY, infer=0.5, seconds=0.5)
        running = [s for s in reported(story) if s.at > START or s.kind is BodyKind.CONFIG]
        explanation = explained(running, index())

        assert causes(explanation) == [(OUTAGE, "m"), ("cold-start", "m")]
        assert explanation.actionable[1].caused_by == explanation.actionable[0].id


@pytest.mark.parametrize(
    ("check", "began", "follows"),
    [
        ("cold-start", 31.0, True),
        ("cold-start", None, True),  # what executes first was loaded just before
        ("cold-start", 10.0, False),
        ("single-instance-serialization", 31.0, True),
        ("single-instance-serialization", None, False),  # it was there from the start
        ("single-instance-serialization", 10.0, False),
    ],
)
def test_an_outage_brings_about_what_began_in_it_or_later(check: str, began: float | None, follows: bool) -> None:
    assert follows_outage(check, began, outage_began=20.0) is follows


class TestAnIncident:
    """An incident of a model that was unloaded, in windows that hold nothing of the time before."""

    def book(self) -> IncidentBook:
        book = IncidentBook("chat", open_after=1, close_after=30.0)
        begun = explained(reported(away(steps=range(10, STEPS))), index(steps=range(10, STEPS)))
        assert [one.kind for one in book.update(begun, START, 0.0)] == [IncidentTransition.OPENED]
        return book

    def later(self, book: IncidentBook, explanation: Explanation) -> list[IncidentChange]:
        return [one for at in (20.0, 40.0, 60.0) for one in book.update(explanation, START + at, at)]

    @pytest.mark.parametrize("without", [(), (BodyKind.INDEX,)])
    def test_lasts_while_the_model_is_away(self, without: Sequence[BodyKind]) -> None:
        book = self.book()
        whole = explained(reported([AWAY] * STEPS), index(steps=range(-1, STEPS)), without=without)

        assert whole.verdict is Verdict.INSUFFICIENT_DATA
        assert self.later(book, whole) == []
        assert [one.check for one in book.open] == [OUTAGE]

    @pytest.mark.parametrize("without", [(), (BodyKind.INDEX,)])
    def test_ends_once_the_model_serves_again(self, without: Sequence[BodyKind]) -> None:
        book = self.book()
        back = explained(reported([BUSY] * STEPS), index(steps=range(0)), without=without)

        assert back.verdict is Verdict.HEALTHY
        assert [one.kind for one in self.later(book, back)] == [IncidentTransition.CLOSED]
        assert book.open == ()

    def test_ends_once_the_model_serves_again_whatever_else_is_unclear_then(self) -> None:
        book = self.book()
        back = explained(reported([BUSY] * STEPS), index(steps=range(0)))

        unclear = replace(back, verdict=Verdict.NO_CLEAR_CAUSE)
        assert [one.kind for one in self.later(book, unclear)] == [IncidentTransition.CLOSED]

    def test_of_another_model_ends_although_nobody_knows_whether_this_one_is_requested(self) -> None:
        book = IncidentBook("chat", open_after=1, close_after=30.0)
        book.update(explained(reported([BUSY] * STEPS, away(steps=range(10, STEPS)))), START, 0.0)
        assert [one.subject.model for one in book.open] == ["other"]
        only_m = explained(reported([AWAY] * STEPS), index(steps=range(-1, STEPS)))

        assert [one.kind for one in self.later(book, only_m)] == [IncidentTransition.CLOSED]


class TestAWindowThatHoldsNothingButTheOutage:
    """Nothing in it shows at which rate the model was asked before."""

    WHOLE = range(-1, STEPS)

    @pytest.mark.parametrize("state", [GONE, ("LOADING", ""), ("UNLOADING", "")])
    def test_is_not_healthy(self, state: tuple[str, str]) -> None:
        explanation = explained(reported([AWAY] * STEPS), index(steps=self.WHOLE, meanwhile=state))

        assert explanation.verdict is Verdict.INSUFFICIENT_DATA
        assert "no version of m was ready at any read" in explanation.reason
        assert "errors that clients of m get" in explanation.next_measurement
        assert "requests to m on triton-0" in [spot.what for spot in explanation.blind_spots]

    @pytest.mark.parametrize(
        "without", [(), (BodyKind.INDEX,), (BodyKind.INDEX, BodyKind.CONFIG), (BodyKind.INDEX, BodyKind.STATISTICS)]
    )
    def test_is_an_outage_where_clients_got_nothing_but_errors(self, without: Sequence[BodyKind]) -> None:
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 0.0, 44.0))
        explanation = explained(reported([AWAY] * STEPS), index(steps=self.WHOLE), [record], without=without)

        assert causes(explanation) == [(OUTAGE, "m")]
        assert explanation.actionable[0].severity == "critical"

    def test_is_reported_beside_the_outage_of_another_model(self) -> None:
        explanation = explained(reported([AWAY] * STEPS, away()), index(steps=self.WHOLE))

        assert "requests to m on triton-0" in [spot.what for spot in explanation.blind_spots]

    def test_is_not_healthy_where_only_its_configuration_tells_of_the_model(self) -> None:
        explanation = explained(reported([AWAY] * STEPS))

        assert explanation.verdict is Verdict.INSUFFICIENT_DATA
        assert "no version of m was ready" in explanation.reason

    def test_is_healthy_where_the_record_of_all_requests_shows_that_nobody_asks(self) -> None:
        record = sent([at / 20 for at in range(20 * 44)], 0.022, model="other")

        assert explained(reported([AWAY] * STEPS), index(steps=self.WHOLE), [record]).verdict is Verdict.HEALTHY

    def test_a_name_that_clients_got_answers_for_is_one_that_counters_call_otherwise(self) -> None:
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 0.0, 40.0))

        assert OUTAGE not in [check for check, _ in causes(explained(reported([AWAY] * STEPS), [record]))]

    def test_that_no_read_was_answered_in_is_an_outage_where_clients_got_nothing_but_errors(self) -> None:
        tried = [replace(one, body=None, error="connection refused") for one in reported([BUSY] * STEPS)]
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 0.0, 44.0))

        assert causes(explained(tried, [record])) == [(OUTAGE, None)]
        assert explained(tried).verdict is Verdict.INSUFFICIENT_DATA


class TestTheRoot:
    CONFIGS: ClassVar = {"chat": chain("chat", "m", "other"), **CONFIGS, "solo": model_config("solo")}

    def story(self, *gone: str) -> Explanation:
        models = ("chat", "m", "other", "solo")
        steps = {(name, "1"): away() if name in gone else [BUSY] * STEPS for name in models}
        states = [
            indexed(
                2.0 * number,
                *((name, "1", *(GONE if name in gone and number - 1 in OUTAGE_STEPS else READY)) for name in models),
            )
            for number in range(STEPS + 1)
        ]
        return explained(story_scrapes(steps, configs=self.CONFIGS), states)

    def test_an_ensemble_that_goes_with_a_member_is_no_cause_of_its_own(self) -> None:
        assert causes(self.story("chat", "m")) == [(OUTAGE, "m")]

    def test_an_ensemble_that_goes_alone_is_the_cause(self) -> None:
        assert causes(self.story("chat")) == [(OUTAGE, "chat")]

    def test_an_ensemble_that_goes_with_all_its_members_is_the_cause(self) -> None:
        assert causes(self.story("chat", "m", "other")) == [(OUTAGE, "chat")]


class TestWhatLooksLikeOne:
    def test_a_model_that_nobody_asks_may_be_unloaded(self) -> None:
        assert explained(reported(away(IDLE, IDLE)), index()).verdict is Verdict.HEALTHY

    def test_a_model_that_nobody_requested_any_more_may_be_unloaded(self) -> None:
        story = [BUSY if n < 5 else IDLE if n < 10 else AWAY for n in range(STEPS)]

        assert explained(reported(story), index(steps=range(10, STEPS))).verdict is Verdict.HEALTHY

    def test_a_model_from_which_the_traffic_was_taken_before_may_be_exchanged(self) -> None:
        story = [BUSY if n < 5 or n > 16 else AWAY if n in OUTAGE_STEPS else IDLE for n in range(STEPS)]

        assert explained(reported(story), index()).verdict is Verdict.HEALTHY

    def test_traffic_may_pause_by_itself(self) -> None:
        story = [IDLE if n in OUTAGE_STEPS else BUSY for n in range(STEPS)]

        assert OUTAGE not in [check for check, _ in causes(explained(reported(story, story), index(steps=range(0))))]

    def test_a_model_that_is_loaded_for_the_first_time_was_not_requested_before(self) -> None:
        steps = range(-1, 6)
        explanation = explained(reported(away(steps=range(6))), index(steps=steps, meanwhile=("", "")))

        assert explanation.verdict is Verdict.HEALTHY

    def test_an_older_version_may_be_retired(self) -> None:
        story = {M: away(steps=range(10, STEPS)), ("m", "2"): away(AWAY, BUSY, range(0)), OTHER: [BUSY] * STEPS}
        story["m", "2"] = [AWAY if n < 10 else BUSY for n in range(STEPS)]
        states = [
            indexed(
                2.0 * n,
                ("m", "1", *(READY if n < 11 else GONE)),
                *([("m", "2", *READY)] if n > 10 else []),
                ("other", "1", *READY),
            )
            for n in range(STEPS + 1)
        ]

        assert explained(story_scrapes(story, configs=CONFIGS), states).verdict is Verdict.HEALTHY

    def test_clients_that_were_answered_all_the_while_deny_it(self) -> None:
        record = sent([at / 20 for at in range(20 * 44)])

        assert OUTAGE not in [check for check, _ in causes(explained(reported(away()), index(), [record]))]

    def test_a_name_that_the_index_never_lists_is_none_of_this_servers(self) -> None:
        """A page of another replica, or labels that a proxy rewrites, name models that are not here."""
        story = {M: [BUSY] * STEPS, ("elsewhere", "1"): away(steps=range(10, STEPS))}
        scrapes = [s for s in story_scrapes(story, configs=CONFIGS) if s.kind is not BodyKind.STATISTICS]

        assert causes(explained(scrapes)) == [(OUTAGE, "elsewhere")]
        assert causes(explained(scrapes, index(steps=range(0)))) == []

    def test_rows_that_are_lost_and_go_on_where_they_were_were_not_read(self) -> None:
        read = [s for s in reported([BUSY] * STEPS) if not 20.0 < s.at - START < 30.0]

        assert explained(read).verdict is Verdict.HEALTHY


class TestWhereNothingTellsWhetherAnyWasRefused:
    def test_a_model_that_is_rarely_requested_is_not_healthy_after_an_outage(self) -> None:
        rare = Did(requests=1, infer=0.02, seconds=0.021)
        sparse = [rare if n % 3 == 0 else IDLE for n in range(STEPS)]
        story = [AWAY if n in OUTAGE_STEPS else did for n, did in enumerate(sparse)]
        explanation = explained(reported(story), index())

        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
        assert "m was unavailable for up to" in explanation.reason

    def test_traffic_that_comes_and_goes_may_have_rested_then(self) -> None:
        pulses = [BUSY if n % 8 < 4 else IDLE for n in range(STEPS)]
        story = [AWAY if n in OUTAGE_STEPS else did for n, did in enumerate(pulses)]

        assert OUTAGE not in [check for check, _ in causes(explained(reported(story), index()))]

    def test_errors_that_only_clients_saw_are_not_healthy(self) -> None:
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 10.0, 14.0))
        explanation = explained(reported([BUSY] * STEPS), index(steps=range(0)), [record])

        assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
        assert "of the requests that clients sent to m failed" in explanation.reason


class TestServers:
    def down(self, *, gained: float = 0.0, replicas: int = 1, tried: bool = True, rests: int = 0) -> list[Scrape]:
        """Return a server that restarts after 20 s and answers again after 30 s, and replicas that go on.

        It is asked again after so many reads, two seconds apart, in which it `rests`.
        """
        first, later = reported([BUSY] * 10, [BUSY] * 10), [*[IDLE] * rests, *[BUSY] * 7]
        again = [
            replace(s, at=s.at + 28.0, mono=s.mono + 28.0)
            for s in reported(later, later)
            if s.at > START and s.kind is not BodyKind.CONFIG
        ]
        more = replace(BUSY, requests=BUSY.requests * (1 + gained))
        beside = [more if n in range(10, 14) else BUSY for n in range(STEPS)]
        others = [replace(s, server=f"triton-{r}") for r in range(1, replicas) for s in reported(beside, beside)]
        failed = [
            replace(first[0], at=START + after, mono=START + after, kind=BodyKind.METRICS, body=None, error="refused")
            for after in range(20, 28, 2)
        ]
        return [*first, *(failed if tried else []), *again, *others]

    def test_a_hole_that_nobody_tried_to_read_is_nobodys_outage_and_not_healthy(self) -> None:
        explanation = explained(self.down(tried=False))

        assert (causes(explanation), explanation.verdict) == ([], Verdict.NO_CLEAR_CAUSE)

    @pytest.mark.parametrize(("rests", "verdict"), [(4, Verdict.DEGRADED), (8, Verdict.NO_CLEAR_CAUSE)])
    def test_who_stays_away_for_longer_than_it_lasted_may_have_ended_before_it(
        self, rests: int, verdict: Verdict
    ) -> None:
        explanation = explained(self.down(rests=rests))

        assert (OUTAGE in [check for check, _ in causes(explanation)]) is (verdict is Verdict.DEGRADED)
        assert explanation.verdict is verdict

    @pytest.mark.parametrize("minutes", [0, 60])
    def test_one_read_that_failed_says_nothing_of_an_hour_after_it(self, minutes: int) -> None:
        """Two recordings that are kept in one folder, of which the first ends with a read that failed."""
        first, later = reported([BUSY] * 10, [BUSY] * 10), 60.0 * minutes
        failed = [replace(first[0], at=START + at, mono=START + at, body=None, error="refused") for at in (22.0, 24.0)]
        again = [
            replace(s, at=s.at + 28.0 + later, mono=s.mono + 28.0 + later)
            for s in reported([BUSY] * 10, [BUSY] * 10)
            if s.kind is not BodyKind.CONFIG
        ]

        assert (causes(explained(first, failed, again)) == [(OUTAGE, None)]) is (minutes == 0)

    @pytest.mark.parametrize("waits", [True, False], ids=["what came waits", "nothing waits"])
    def test_a_hole_in_which_requests_failed_is_an_outage_unless_what_came_waits_inside(self, waits: bool) -> None:
        stuck = [Did(requests=0, pending=40.0 * (n - 7) * waits) for n in range(8, STEPS)]
        story = [*[BUSY] * 8, *stuck]
        moments = [at / 20 for at in range(20 * 44)]
        record = replace(sent(moments), body=failing(sent(moments), 16.0, 44.0))
        read = [s for s in reported(story, story) if not 18.0 < s.at - START < 30.0 or s.kind is BodyKind.CONFIG]

        assert ((OUTAGE, None) in causes(explained(read, [record]))) is not waits

    def test_counters_that_began_anew_and_hold_all_that_usually_comes_refused_nobody(self) -> None:
        again = [
            replace(s, at=s.at + 26.0, mono=s.mono + 26.0)
            for s in reported([BUSY] * 9, [BUSY] * 9)
            if s.at > START and s.kind is not BodyKind.CONFIG
        ]
        explanation = explained(reported([BUSY] * 13, [BUSY] * 13), again)

        assert OUTAGE not in [check for check, _ in causes(explanation)]

    def test_so_do_those_of_one_model_alone(self) -> None:
        """It cannot have been unloaded between two reads from one to the other of which it served as usual."""
        base: dict[tuple[str, str], Counts] = {}

        def alter(read: int, rows: dict[tuple[str, str], Counts]) -> Mapping[tuple[str, str], Counts]:
            base.update(rows if read == 7 else {})
            return {**rows, M: rows[M] - base[M]} if read >= 8 else rows

        models = tuple(Stage(name, rate=90, execution=0.01, config=model_config(name)) for name in ("m", "other"))
        explanation = SyntheticTriton(models=models, interval=2.0, alter=alter).explain(16)

        assert OUTAGE not in [check for check, _ in causes(explanation)]

    def test_a_server_that_was_down_for_a_while_is_the_cause(self) -> None:
        explanation = explained(self.down())

        assert causes(explanation) == [(OUTAGE, None)]
        assert explanation.actionable[0].summary.startswith("triton-0 was unavailable for 7 s (restarted)")

    def test_replicas_that_were_given_its_requests_served_them(self) -> None:
        assert OUTAGE not in [check for check, _ in causes(explained(self.down(gained=1.0, replicas=2)))]

    def test_replicas_that_go_on_as_before_did_not(self) -> None:
        assert causes(explained(self.down(replicas=2)))[0] == (OUTAGE, None)

    def anew(self, *, servers: int = 1) -> list[Scrape]:
        """Return servers of which the first one counts all anew from the read at 28 s on."""
        first = [
            replace(s, body=zeroed(s))
            if s.at == START + 28.0 and s.kind in (BodyKind.METRICS, BodyKind.STATISTICS)
            else s
            for s in [
                *reported([BUSY] * 14, [BUSY] * 14),
                *(later(s) for s in reported([BUSY] * 8, [BUSY] * 8) if s.at > START and s.kind is not BodyKind.CONFIG),
            ]
        ]
        others = [replace(s, server=f"triton-{r}") for r in range(1, servers) for s in reported([BUSY] * STEPS)]
        return [*first, *others]

    @pytest.mark.parametrize("servers", [1, 2])
    def test_a_restart_between_two_reads_is_an_outage_unless_clients_were_answered_all_along(
        self, servers: int
    ) -> None:
        # Twenty a second to each model of each server.
        answered = [sent([at / 20 / servers for at in range(20 * servers * 44)], model=m) for m in ("m", "other")]
        scrapes = self.anew(servers=servers)

        assert (OUTAGE, None) in causes(explained(scrapes))
        assert (OUTAGE, None) not in causes(explained(scrapes, answered))

    @pytest.mark.parametrize("usual", [True, False], ids=["bunches fail at all times", "only then"])
    def test_a_bunch_of_failures_as_at_other_times_is_no_restart(self, usual: bool) -> None:
        """A full queue refuses in bunches: of each 8 s those of the last two, which are also those of the restart."""
        record = sent([at / 20 for at in range(20 * 44)])
        bunches = [(start, start + 2.0) for start in (range(2, 44, 8) if usual else [26])]
        for since, until in bunches:
            record = replace(record, body=failing(record, since, until))

        assert ((OUTAGE, None) in causes(explained(self.anew(), [record]))) is not usual


def later(scrape: Scrape) -> Scrape:
    """Return a read 28 s later."""
    return replace(scrape, at=scrape.at + 28.0, mono=scrape.mono + 28.0)


def zeroed(scrape: Scrape) -> bytes | None:
    """Return a body whose counters count nothing yet."""
    return next(s.body for s in reported([IDLE] * 2, [IDLE] * 2) if (s.kind, s.at) == (scrape.kind, START))


def failing(record: Scrape, since: float, until: float) -> bytes:
    """Return a client's record in which the requests of a stretch failed."""
    lines = (record.body or b"").decode().splitlines()
    return "\n".join(
        line.replace('"ok": true', '"ok": false, "code": 404') if failed else line
        for line in lines
        for failed in [since <= float(line.split('"t": ')[1].split(",")[0]) - START < until]
    ).encode()


def test_an_outage_may_bring_about_what_a_load_does() -> None:
    assert {"cold-start", "model-reload-stall", "request-failures"} <= {
        check for check, its in CAUSED_BY.items() if OUTAGE in its
    }
