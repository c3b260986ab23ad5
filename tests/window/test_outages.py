"""When a model or a server was away, by each of the sources that show it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.window.outages import INDEX, LOG, READS, RESTARTED, Outage, outages
from diagnostics.window.window import METRICS, STATISTICS, Window, window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import SERVER, START
from tests.builders_traffic import Did, indexed, logged, story_scrapes

BUSY, AWAY = Did(requests=40), Did(absent=True)
READY = ("READY", "")
GONE = ("UNAVAILABLE", "unloaded")
M, OTHER = ("m", "1"), ("other", "1")


def found(scrapes: list[Scrape]) -> list[Outage]:
    window = window_of(scrapes)
    return [
        replace(
            one,
            after=None if one.after is None else one.after - START,
            since=one.since - START,
            until=one.until - START,
            before=None if one.before is None else one.before - START,
        )
        for one in outages(window.servers[SERVER], window.end)
    ]


def states(*each: tuple[str, str], model: str = "m") -> list[Scrape]:
    """Return an index read every two seconds, with the model's state and reason at each."""
    return [
        indexed(2.0 * number, (model, "1", *state), ("other", "1", *READY), server=SERVER)
        for number, state in enumerate(each)
    ]


class TestTheIndex:
    STORY = (BUSY, BUSY, AWAY, AWAY, AWAY, BUSY, BUSY)

    def test_it_was_away_between_the_reads_at_which_no_version_was_ready(self) -> None:
        index = states(READY, READY, READY, ("UNLOADING", ""), GONE, GONE, READY, READY)
        one = found([*story_scrapes({M: self.STORY, OTHER: [BUSY] * 7}), *index])

        assert one == [
            Outage(
                model="m",
                after=4.0,
                since=6.0,
                until=10.0,
                before=12.0,
                source=INDEX,
                state="UNAVAILABLE",
                reason="unloaded",
            )
        ]

    def test_the_log_tells_the_instants(self) -> None:
        index = states(READY, READY, READY, GONE, GONE, GONE, READY, READY)
        log = logged(
            "I0112 13:46:44.500000 1 model_lifecycle.cc:624] \"successfully unloaded 'm' version 1\"",
            'I0112 13:46:50.500000 1 model_lifecycle.cc:472] "loading: m:1"',
            "I0112 13:46:51.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\"",
        )
        (one,) = found([*story_scrapes({M: self.STORY, OTHER: [BUSY] * 7}), *index, log])

        assert (one.after, one.since, one.until, one.before) == (4.5, 4.5, 11.5, 11.5)

    def test_one_that_never_comes_back_has_no_end(self) -> None:
        index = states(READY, READY, READY, GONE, GONE, GONE, GONE, GONE)
        (one,) = found([*story_scrapes({M: [BUSY, BUSY, *[AWAY] * 5], OTHER: [BUSY] * 7}), *index])

        assert (one.after, one.since, one.until, one.before) == (4.0, 6.0, 14.0, None)

    def test_a_reason_other_than_unloaded_is_kept(self) -> None:
        index = states(READY, READY, READY, GONE, ("UNAVAILABLE", "no weights"), GONE, READY, READY)
        (one,) = found([*story_scrapes({M: self.STORY, OTHER: [BUSY] * 7}), *index])

        assert one.reason == "no weights"

    def test_an_old_copy_that_answers_while_a_new_one_loads_is_there(self) -> None:
        index = states(READY, READY, *[("LOADING", "")] * 4, READY, READY)

        assert found([*story_scrapes({M: [BUSY] * 7, OTHER: [BUSY] * 7}), *index]) == []

    def test_an_older_version_that_is_retired_beside_a_newer_one_is_none(self) -> None:
        index = [
            indexed(0.0, ("m", "1", *READY)),
            indexed(4.0, ("m", "1", *GONE), ("m", "2", *READY)),
            indexed(12.0, ("m", "1", *GONE), ("m", "2", *READY)),
        ]
        story = {M: [BUSY, BUSY, *[AWAY] * 5], ("m", "2"): [AWAY, AWAY, *[BUSY] * 5]}

        assert found([*story_scrapes(story), *index]) == []

    def test_a_read_that_leaves_a_model_out_says_nothing_of_it(self) -> None:
        index = [indexed(2.0 * n, *([("m", "1", *READY)] if n != 3 else [])) for n in range(8)]

        assert found([*story_scrapes({M: [BUSY] * 7}), *index]) == []


class TestTheLog:
    UNLOADED = "I0112 13:46:44.500000 1 model_lifecycle.cc:624] \"successfully unloaded 'm' version 1\""
    LOADING = 'I0112 13:46:{}.000000 1 model_lifecycle.cc:472] "loading: m:1"'
    LOADED = "I0112 13:46:46.500000 1 model_lifecycle.cc:839] \"successfully loaded 'm'\""

    def test_what_was_away_between_two_reads_is_seen_in_the_log_alone(self) -> None:
        index = [indexed(at, ("m", "1", *READY)) for at in (0.0, 4.0, 8.0)]
        log = logged(self.UNLOADED, self.LOADING.format("45"), self.LOADED)
        (one,) = found([*story_scrapes({M: [BUSY] * 4}), *index, log])

        assert (one.since, one.until, one.source) == (4.5, 6.5, LOG)

    def test_an_old_copy_that_ends_after_a_reload_in_place_is_no_outage(self) -> None:
        """Seen on 2.51: the old copy's processes may end seconds after the new one was loaded."""
        index = [indexed(at, ("m", "1", *READY)) for at in (0.0, 4.0, 8.0)]
        log = logged(self.LOADING.format("43"), self.LOADED.replace("46.5", "44.2"), self.UNLOADED)

        assert found([*story_scrapes({M: [BUSY] * 4}), *index, log]) == []


class TestCounters:
    @pytest.mark.parametrize(
        ("without", "source"), [(None, STATISTICS), (BodyKind.STATISTICS, METRICS), (BodyKind.METRICS, STATISTICS)]
    )
    def test_what_no_version_of_was_listed_and_that_counts_from_zero_was_unloaded(
        self, without: BodyKind | None, source: str
    ) -> None:
        story = {M: [*[BUSY] * 5, AWAY, AWAY, AWAY, *[BUSY] * 3], OTHER: [BUSY] * 11}
        (one,) = found([scrape for scrape in story_scrapes(story) if scrape.kind is not without])

        assert (one.model, one.after, one.since, one.until, one.before) == ("m", 10.0, 12.0, 16.0, 18.0)
        assert one.source == source

    def test_metrics_that_keep_the_row_for_longer_do_not_date_it(self) -> None:
        """Seen on 2.51: a Python model's row stays until its processes have ended."""
        gone = [*[BUSY] * 5, AWAY, AWAY, AWAY, AWAY, *[BUSY] * 3]
        stays = [*[BUSY] * 5, Did(), Did(), AWAY, AWAY, *[BUSY] * 3]
        exact = [s for s in story_scrapes({M: gone, OTHER: [BUSY] * 12}) if s.kind is BodyKind.STATISTICS]
        later = [s for s in story_scrapes({M: stays, OTHER: [BUSY] * 12}) if s.kind is BodyKind.METRICS]
        (one,) = found([*exact, *later])

        assert (one.after, one.since, one.until, one.before) == (10.0, 12.0, 18.0, 20.0)

    def test_rows_that_bodies_lost_go_on_where_they_were(self) -> None:
        reported = story_scrapes({M: [BUSY] * 8, OTHER: [BUSY] * 8})
        lost = [s if not 5 < s.at - START < 11 else replace(s, body=without_m(s)) for s in reported]

        assert found(lost) == []

    @pytest.mark.parametrize(("reads", "gone"), [(2, False), (3, True)])
    def test_three_reads_in_a_row_to_the_last_tell_that_it_is_gone(self, reads: int, gone: bool) -> None:
        story = {M: [BUSY] * 5 + [AWAY] * reads, OTHER: [BUSY] * (5 + reads)}

        assert [one.before for one in found(story_scrapes(story))] == ([None] if gone else [])


def without_m(scrape: Scrape) -> bytes:
    """Return a body that lost the rows of model m."""
    body = scrape.body or b""
    if scrape.kind is BodyKind.METRICS:
        return b"".join(line for line in body.splitlines(keepends=True) if b'model="m"' not in line)
    return body.replace(b'"name": "m"', b'"name": "other"')


class TestServers:
    def restarted(self, down: int, *, after: int = 6) -> list[Scrape]:
        """Return reads every two seconds, of which some in the middle were not answered while it restarted."""
        anew = {M: [BUSY] * after, OTHER: [BUSY] * after}
        later = [
            replace(s, at=s.at + 12.0 + 2.0 * down, mono=s.mono + 12.0 + 2.0 * down)
            for s in story_scrapes(anew)
            if s.at > START
        ]
        return [*story_scrapes({M: [BUSY] * 6, OTHER: [BUSY] * 6}), *later]

    def test_reads_that_nobody_answered_are_a_server_that_was_down(self) -> None:
        tries = [
            Scrape(server=SERVER, kind=kind, at=START + at, mono=START + at, error="connection refused")
            for at in (14.0, 16.0, 18.0)
            for kind in (BodyKind.METRICS, BodyKind.STATISTICS)
        ]
        (one,) = found([*self.restarted(4), *tries])

        assert (one.model, one.after, one.since, one.until, one.before) == ("", 12.0, 14.0, 18.0, 22.0)
        assert (one.source, one.state) == (READS, RESTARTED)

    @pytest.mark.parametrize("rounds", [3, 4, 5, 6])
    def test_tries_whose_pauses_double_are_tries_all_the_time(self, rounds: int) -> None:
        tries = [
            Scrape(server=SERVER, kind=BodyKind.METRICS, at=START + at, mono=START + at, error="connection refused")
            for at in (19.99 + 2.0 * 2**number for number in range(rounds))
        ]
        (one,) = found([*story_scrapes({M: [BUSY] * 10, OTHER: [BUSY] * 10}), *tries])

        assert (one.tried, one.over) == (True, False)

    def test_a_recorder_that_keeps_no_failed_read_leaves_a_hole(self) -> None:
        (one,) = found(self.restarted(4))

        assert (one.model, one.since, one.until) == ("", 14.0, 20.0)

    @pytest.mark.parametrize(
        ("reason", "at", "kind", "tried"),
        [
            ("connection refused", 12.5, BodyKind.METRICS, False),
            ("HTTP 503", 21.5, BodyKind.STATISTICS, False),
            ("no answer within 5 s", 17.5, BodyKind.METRICS, True),
            ("no answer within 3 s", 17.5, BodyKind.METRICS, True),
            ("no answer within 3 s", 21.0, BodyKind.METRICS, False),
            ("the connection was closed before an answer", 21.9, BodyKind.METRICS, True),
            ("connection refused", 17.0, BodyKind.HOST, False),
        ],
    )
    def test_a_failed_read_tells_of_the_time_for_which_it_can_have_waited(
        self, reason: str, at: float, kind: BodyKind, tried: bool
    ) -> None:
        failed = Scrape(server=SERVER, kind=kind, at=START + at, mono=START + at, error=reason)
        (one,) = found([*self.restarted(4), failed])

        assert one.tried is tried
        assert (one.since, one.until) == pytest.approx((at, at) if tried else (14.0, 20.0))

    def test_a_clock_that_is_set_leaves_no_hole_where_steady_time_went_on(self) -> None:
        steady = story_scrapes({M: [BUSY] * 10, OTHER: [BUSY] * 10})

        assert found([replace(s, at=s.at + 30.0) if s.at > START + 10.0 else s for s in steady]) == []

    def test_reads_that_a_clock_filed_too_early_are_no_restart(self) -> None:
        steady = story_scrapes({M: [BUSY] * 20, OTHER: [BUSY] * 20})
        early = [replace(s, at=s.at - 60.0, mono=s.mono - 60.0) if 14.0 <= s.at - START <= 26.0 else s for s in steady]
        outages_then = found(early)

        assert [one.state for one in outages_then if one.state] == []
        assert not any(one.tried for one in outages_then)

    def test_a_restart_between_two_reads_is_one_of_unknown_length(self) -> None:
        (one,) = found(self.restarted(0))

        assert (one.model, one.after, one.before, one.state) == ("", 12.0, 14.0, RESTARTED)

    def test_a_model_is_not_reported_again_while_its_server_was_down(self) -> None:
        assert [one.model for one in found(self.restarted(4))] == [""]

    def test_a_server_that_answers_no_more_while_another_does_is_down_to_the_end(self) -> None:
        other = [replace(s, server="triton-1") for s in story_scrapes({M: [BUSY] * 20})]
        window: Window = window_of([*story_scrapes({M: [BUSY] * 6}), *other])
        (one,) = outages(window.servers[SERVER], window.end)

        assert (one.since - START, one.until - START, one.before) == (14.0, 40.0, None)

    def test_one_missed_round_is_none(self) -> None:
        reported = [s for s in story_scrapes({M: [BUSY] * 10}) if s.at != START + 8.0]

        assert found(reported) == []
