"""A model that Triton refused, or never loaded, exists: it is a finding, or what is not visible, never nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import explained as explained_window
from tests.builders import model_config
from tests.builders_traffic import Did, indexed, logged, sent, story_scrapes

STEPS = 22
BUSY = Did(requests=40, infer=0.02, seconds=0.021)
SERVED = ("m", "1", "READY", "")
# As Triton 2.51 logs what it refuses; START is in the year that the classic format leaves out.
POLL = "E1114 22:13:{:02d}.000000 7 model_repository_manager.cc:1460] \"Poll failed for model directory '{}': {}\""
LOADED = "I1114 22:13:{:02d}.000000 7 model_lifecycle.cc:849] \"successfully loaded '{}'\""
BAD_PROTO = "failed to read text proto from /models/new/config.pbtxt"


def explained(*scrapes: Scrape, without: Sequence[BodyKind] = ()) -> Explanation:
    steady = story_scrapes({("m", "1"): (BUSY,) * STEPS}, configs={"m": model_config("m")})
    return explained_window(window_of([one for one in (*steady, *scrapes) if one.kind not in without]))


def index(*entries: tuple[str, str, str, str]) -> list[Scrape]:
    return [indexed(2.0 * number, SERVED, *entries) for number in range(STEPS + 1)]


def unseen(explanation: Explanation) -> list[str]:
    return [spot.what for spot in explanation.blind_spots if spot.what.startswith("requests to ")]


class TestAFolderThatWasNeverLoaded:
    def test_is_what_is_not_visible_where_nobody_is_known_to_ask_for_it(self) -> None:
        explanation = explained(*index(("new", "", "", "")))

        assert explanation.verdict is Verdict.HEALTHY
        assert unseen(explanation) == ["requests to new on triton-0"]

    def test_of_many_the_first_are_named_and_the_others_counted(self) -> None:
        explanation = explained(*index(*((f"new-{number}", "", "", "") for number in range(50))))

        assert unseen(explanation) == ["requests to new-0, new-1, new-10 and 47 more on triton-0"]

    def test_is_an_outage_when_clients_ask_for_it(self) -> None:
        record = sent([at / 10 for at in range(300)], model="new")
        refused = replace(record, body=record.body.replace(b'"ok": true', b'"ok": false'))
        (finding,) = explained(*index(("new", "", "", "")), refused).actionable

        assert (finding.check, finding.subject.model) == ("model-unavailable", "new")
        assert "listed without a state" in finding.summary

    def test_is_seen_in_the_repositorys_files_where_the_index_was_not_read(self) -> None:
        file = replace(index()[0], kind=BodyKind.REPOSITORY, name="new/config.pbtxt", body=b'name: "new"')

        assert unseen(explained(file)) == ["requests to new on triton-0"]
        assert unseen(explained(replace(file, name="m/config.pbtxt"))) == []

    def test_is_not_claimed_of_a_configuration_alone(self) -> None:
        file = replace(index()[0], kind=BodyKind.REPOSITORY, name="new/config.pbtxt", body=b'name: "new"')

        assert unseen(explained_window(window_of([file]))) == []


class TestAFolderThatCannotBeRead:
    @pytest.mark.parametrize("without", [(), (BodyKind.INDEX,)])
    def test_is_a_load_that_failed_with_the_logs_reason(self, without: Sequence[BodyKind]) -> None:
        log = logged(*(POLL.format(20 + 15 * turn, "new", BAD_PROTO) for turn in range(3)))
        explanation = explained(*index(("new", "", "", "")), log, without=without)
        (finding,) = explanation.actionable

        assert (finding.check, finding.subject.model) == ("model-unavailable", "new")
        assert finding.summary == f"new could not be loaded, and nothing shows whether clients request it: {BAD_PROTO}"
        assert unseen(explanation) == []

    @pytest.mark.parametrize("without", [(), (BodyKind.INDEX,)])
    def test_leaves_the_version_that_serves(self, without: Sequence[BodyKind]) -> None:
        (finding,) = explained(*index(), logged(POLL.format(30, "m", BAD_PROTO)), without=without).actionable

        assert "m could not be loaded, and an older version goes on serving" in finding.summary
        assert finding.severity == "warning"

    def test_is_no_fault_when_the_next_poll_finds_it_whole(self) -> None:
        log = logged(POLL.format(20, "new", BAD_PROTO), LOADED.format(35, "new"))

        assert explained(*index(("new", "1", "READY", "")), log).actionable == ()


class TestAModelThatWasTakenOutOfUse:
    """It stays in the index as unloaded. Requests to it would be refused, and nothing tells that there are any."""

    ENTRY = ("old", "1", "UNAVAILABLE", "unloaded")
    # The builders' time begins at 13:46:40 on 12 January 1970.
    UNLOADED = "I0112 {}.000000 7 model_lifecycle.cc:636] \"successfully unloaded 'old' version 1\""

    @pytest.mark.parametrize("without", [(), (BodyKind.STATISTICS,)], ids=str)
    def test_leaves_the_window_healthy_and_is_what_is_not_visible(self, without: Sequence[BodyKind]) -> None:
        explanation = explained(*index(self.ENTRY), without=without)

        assert explanation.verdict is Verdict.HEALTHY
        assert unseen(explanation) == ["requests to old on triton-0"]

    def test_may_be_an_ensemble_with_its_members(self) -> None:
        entries = (self.ENTRY, ("old-chat", "1", "UNAVAILABLE", "unloaded"), ("m", "0", "UNAVAILABLE", "unloaded"))

        assert explained(*index(*entries)).verdict is Verdict.HEALTHY

    def test_was_in_use_lately_where_its_configuration_was_read(self) -> None:
        body = json.dumps(model_config("old")).encode()
        read = replace(index()[0], kind=BodyKind.CONFIG, name="old", body=body)
        explanation = explained(*index(self.ENTRY), read)

        assert explanation.verdict is Verdict.INSUFFICIENT_DATA
        assert "no version of old was ready at any read" in explanation.reason
        long_ago = replace(read, at=read.at - 2 * 3600)
        assert explained(*index(self.ENTRY), long_ago).verdict is Verdict.HEALTHY

    @pytest.mark.parametrize(
        ("moment", "verdict"), [("13:46:02", Verdict.INSUFFICIENT_DATA), ("11:46:02", Verdict.HEALTHY)]
    )
    def test_was_in_use_lately_where_the_log_shows_its_end(self, moment: str, verdict: Verdict) -> None:
        explanation = explained(*index(self.ENTRY), logged(self.UNLOADED.format(moment)))

        assert explanation.verdict is verdict

    def test_is_an_outage_when_clients_ask_for_it(self) -> None:
        record = sent([at / 10 for at in range(300)], model="old")
        refused = replace(record, body=record.body.replace(b'"ok": true', b'"ok": false'))
        (finding,) = explained(*index(self.ENTRY), refused).actionable

        assert (finding.check, finding.subject.model) == ("model-unavailable", "old")

    def test_a_version_that_failed_before_a_later_one_was_loaded_is_over(self) -> None:
        def explained_with(version: str) -> Explanation:
            return explained(*index(("m", version, "UNAVAILABLE", "weights are missing")))

        assert explained_with("0").verdict is Verdict.HEALTHY
        assert [one.check for one in explained_with("2").actionable] == ["model-unavailable"]
