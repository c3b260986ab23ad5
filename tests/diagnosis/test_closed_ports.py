"""One of a server's ports is silent while the other answers: an outage, or what is not seen, never nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.window.window import window_of
from diagnostics.wire.capture import CaptureWriter, open_capture
from diagnostics.wire.failed_reads import LONGEST_REASON
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.redact import Anonymizer, redact
from tests.builders import START, model_config
from tests.builders import explained as explained_window
from tests.builders_traffic import Did, indexed, story_scrapes

REFUSED, LATE = "connection refused", "no answer within 5 s"
BUSY, IDLE = Did(requests=40, infer=0.02, seconds=0.021), Did()
STEPS = 22
INFERENCE, METRICS = (BodyKind.STATISTICS, BodyKind.INDEX), (BodyKind.METRICS,)
CONFIGS = {"m": model_config("m")}


def read(
    story: Sequence[Did],
    failing: Collection[BodyKind],
    reason: str = REFUSED,
    *,
    since: float = 20.0,
    until: float = 99.0,
    server: str = "triton-0",
) -> list[Scrape]:
    """Return a server's reads, of which those of some kinds fail for a while."""
    index = [indexed(2.0 * number, ("m", "1", "READY", ""), server=server) for number in range(len(story) + 1)]
    return [
        replace(one, body=None, error=reason) if one.kind in failing and since <= one.at - START <= until else one
        for one in (*story_scrapes({("m", "1"): story}, configs=CONFIGS, server=server), *index)
    ]


def explained(*scrapes: Sequence[Scrape]) -> Explanation:
    return explained_window(window_of([one for part in scrapes for one in part]))


def causes(explanation: Explanation) -> list[tuple[str, str | None]]:
    return [(finding.check, finding.subject.model) for finding in explanation.actionable]


def why(explanation: Explanation, port: str) -> list[str]:
    return [spot.why for spot in explanation.blind_spots if spot.why.startswith(f"its {port}")]


@pytest.mark.parametrize(("rounds", "verdict"), [(1, Verdict.HEALTHY), (3, Verdict.NO_CLEAR_CAUSE)])
def test_a_server_that_starts_as_the_window_begins_is_not_healthy_where_requests_came_at_once(
    rounds: int, verdict: Verdict
) -> None:
    every = (*INFERENCE, *METRICS)
    explanation = explained(read([BUSY] * 22, every, since=0.0, until=2.0 * rounds - 1.0))

    assert explanation.verdict is verdict


@pytest.mark.parametrize("reason", [REFUSED, LATE, "the connection was closed without an answer"])
class TestTheInferencePortClosesWhileCountersStandStill:
    def test_for_good_is_the_servers_outage(self, reason: str) -> None:
        explanation = explained(read([BUSY] * 10 + [IDLE] * 12, INFERENCE, reason))

        assert causes(explanation) == [(OUTAGE, None)]
        assert explanation.actionable[0].severity == "critical"
        assert "inference port" in explanation.actionable[0].summary
        assert explanation.actionable[0].onset is not None
        assert explanation.actionable[0].onset.at == START + 20.0
        assert why(explanation, "inference port") == []

    def test_for_a_while_is_the_servers_outage(self, reason: str) -> None:
        story = [BUSY] * 10 + [IDLE] * 5 + [BUSY] * 7
        (finding,) = explained(read(story, INFERENCE, reason, until=30.0)).actionable

        assert (finding.check, finding.subject.model) == (OUTAGE, None)
        # Forty requests every two seconds, for ten seconds.
        assert finding.impact.share_of_requests_failed == pytest.approx(200 / 880, abs=0.06)

    @pytest.mark.parametrize("later", [0.0, 2.0], ids=["in the same round", "in the next round"])
    def test_before_the_metrics_page_is_one_outage_from_then_on(self, reason: str, later: float) -> None:
        closing = read([BUSY] * 10 + [IDLE] * 12, INFERENCE, reason)
        stopped = [
            replace(one, body=None, error=reason) if one.kind in METRICS and one.at - START > 20.0 + later else one
            for one in closing
        ]

        (finding,) = explained(stopped).actionable
        assert (finding.check, finding.subject.model) == (OUTAGE, None)
        assert "it answered no read" in finding.summary

    def test_and_the_metrics_page_in_the_next_read_is_no_closed_port(self, reason: str) -> None:
        closing = read([BUSY] * 10 + [IDLE] * 2, INFERENCE, reason)
        stopped = [
            replace(one, body=None, error=reason) if one.kind in METRICS and one.at - START > 20.0 else one
            for one in closing
        ]

        assert explained(stopped).actionable == ()

    def test_of_requests_that_wait_inside_it_is_not(self, reason: str) -> None:
        waiting = replace(IDLE, pending=20)

        assert OUTAGE not in [c for c, _ in causes(explained(read([BUSY] * 10 + [waiting] * 12, INFERENCE, reason)))]


@pytest.mark.parametrize(
    ("lost", "outages"),
    [((0, 2, 3, 5, 8, 9, 11, 14, 16, 17, 20), 0), ((3, 4, 5, 6, 12, 13, 14, 15), 2), ((3, 4), 1)],
    ids=["here and there", "for two whiles", "for a while"],
)
def test_reads_that_fail_here_and_there_are_no_outage_of_a_port(lost: Collection[int], outages: int) -> None:
    fails = {START + 2.0 * number for number in lost}
    reads = [
        replace(one, body=None, error=REFUSED) if one.kind in INFERENCE and one.at in fails else one
        for one in read([BUSY] * STEPS, ())
    ]

    assert len(window_of(reads).servers["triton-0"].unanswered()) == outages


class TestTheInferencePortIsClosedFromTheStart:
    STILL = (BUSY, *[IDLE] * (STEPS - 1))

    def still(self, reason: str) -> list[Scrape]:
        """Return reads of counters that stand where earlier requests left them."""
        return [one for one in read(self.STILL, INFERENCE, reason, since=0.0) if one.at > START]

    def test_refusing_ports_are_an_outage_of_whoever_was_requested_before(self) -> None:
        explanation = explained(self.still(REFUSED))
        (finding,) = explanation.actionable

        assert (finding.check, finding.subject.model, finding.severity) == (OUTAGE, None, "critical")
        assert "has refused connections to its inference port for 42 s" in finding.summary

    def test_silent_ports_are_not_idle(self) -> None:
        explanation = explained(self.still(LATE))

        assert explanation.verdict is Verdict.INSUFFICIENT_DATA
        assert "the inference port of triton-0 answered no read" in explanation.reason
        assert "send it a request" in explanation.next_measurement

    def test_nobody_is_hurt_where_nobody_ever_requested(self) -> None:
        explanation = explained(read([IDLE] * STEPS, INFERENCE, since=0.0))

        assert (explanation.actionable, explanation.verdict) == ((), Verdict.IDLE)
        assert len(why(explanation, "inference port")) == 1

    def test_a_replica_beside_it_that_serves_has_its_requests(self) -> None:
        explanation = explained(self.still(REFUSED), read([BUSY] * STEPS, (), server="triton-1"))

        assert causes(explanation) == []
        assert len(why(explanation, "inference port")) == 1

    def test_a_proxy_that_wants_credentials_is_not_a_closed_port(self) -> None:
        explanation = explained(self.still("HTTP 401, credentials are missing"))

        assert causes(explanation) == []
        assert "HTTP 401" in why(explanation, "inference port")[0]


class TestCountersThatGoOn:
    @pytest.mark.parametrize("reason", [REFUSED, LATE])
    @pytest.mark.parametrize("since", [0.0, 20.0])
    @pytest.mark.parametrize(("kinds", "port"), [(INFERENCE, "inference port"), (METRICS, "metrics port")])
    def test_show_that_requests_are_served_and_what_is_not_seen_is_named(
        self, kinds: Collection[BodyKind], port: str, since: float, reason: str
    ) -> None:
        explanation = explained(read([BUSY] * STEPS, kinds, reason, since=since))
        (reported,) = why(explanation, port)

        assert causes(explanation) == []
        assert reason in reported
        assert ("at every read" in reported) == (since == 0.0)

    def test_one_read_that_fails_is_nothing(self) -> None:
        explanation = explained(read([BUSY] * STEPS, METRICS, until=20.0))

        assert why(explanation, "metrics port") == []


class TestARecording:
    """A capture keeps when a read failed and why, so that it is judged as the live server was."""

    @pytest.mark.parametrize("change", [redact, Anonymizer(b"seed").apply])
    @pytest.mark.parametrize(("reason", "since"), [(REFUSED, 20.0), (LATE, 20.0), (REFUSED, 0.0), (LATE, 0.0)])
    def test_of_a_closed_port_is_judged_as_the_server(
        self, tmp_path: Path, change: Callable[[Scrape], Scrape], reason: str, since: float
    ) -> None:
        live = [one for one in read([BUSY] * 10 + [IDLE] * 12, INFERENCE, reason, since=since) if one.at >= START]
        with CaptureWriter(tmp_path / "a.tar", "a", ["triton-0"], 2.0) as writer:
            for one in sorted(live, key=lambda scrape: scrape.at):
                writer.add(change(one))
        replayed = explained(list(open_capture(tmp_path / "a.tar").scrapes()))

        assert replayed.verdict is explained(live).verdict
        assert [f.check for f in replayed.actionable] == [f.check for f in explained(live).actionable]
        assert [f.severity for f in replayed.actionable] == [f.severity for f in explained(live).actionable]

    def test_keeps_one_line_of_a_reason_and_no_secret(self, tmp_path: Path) -> None:
        failed = replace(read([BUSY], INFERENCE, since=0.0)[1], body=None, error="Authorization: Bearer s3cret " * 99)
        with CaptureWriter(tmp_path / "a.tar", "a", ["triton-0"], 2.0) as writer:
            writer.add(redact(failed))
        (kept,) = open_capture(tmp_path / "a.tar").scrapes()

        assert kept.error is not None
        assert len(kept.error) <= LONGEST_REASON
        assert "s3cret" not in kept.error
