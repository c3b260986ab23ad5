from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.checks.check import Layer, Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict, WindowFacts
from diagnostics.diagnosis.finding import Finding, Impact
from diagnostics.diagnosis.incident import LOWER_AFTER, Incident, IncidentBook, IncidentChange, IncidentTransition
from diagnostics.diagnosis.onset import Onset
from diagnostics.signals.signal import Subject
from tests.builders import SyntheticTriton
from tests.stated_evidence import StatedEvidence

NOON = 1_700_000_000.0


def finding(name: str = "cause", **more: object) -> Finding:
    harm = more.pop("harm", 0.3)
    impact = Impact(mean_seconds=1.0, seconds_per_request=0.3, share_of_latency=harm, share_of_requests_failed=0.0)
    reported = {
        "id": name,
        "check": name,
        "title": f"The {name}",
        "layer": Layer.SERVING,
        "severity": Severity.WARNING,
        "confidence": 0.9,
        "subject": Subject(server="triton-0:8002", model="chat"),
        "summary": "requests wait",
        "impact": impact,
        "evidence": (),
        "suggestion": None,
        "advice": None,
    }
    return Finding(**{**reported, **more})


def judged(*findings: Finding, verdict: Verdict | None = None) -> Explanation:
    return Explanation(
        window=WindowFacts(start=NOON, end=NOON + 300, sources=()),
        verdict=verdict or (Verdict.DEGRADED if findings else Verdict.HEALTHY),
        reason="",
        layer=None,
        findings=findings,
        symptoms=(),
        anatomy=(),
        blind_spots=(),
        results=(),
        evidence=StatedEvidence({}),
    )


class Life:
    """A book that is fed every 15 seconds."""

    def __init__(self, **rules: float) -> None:
        self.book, self.time = IncidentBook("chat", **rules), 0.0

    def see(self, *findings: Finding, verdict: Verdict | None = None, clock: float = NOON) -> list[IncidentChange]:
        self.time += 15.0
        return list(self.book.update(judged(*findings, verdict=verdict), clock + self.time, self.time))

    def opened(self, *findings: Finding) -> Incident:
        while not (changes := [one for one in self.see(*findings) if one.kind is IncidentTransition.OPENED]):
            assert self.time < 1_000
        return changes[-1].incident


def kinds(changes: list[IncidentChange]) -> list[str]:
    return [change.kind.value for change in changes]


def test_an_incident_opens_when_so_many_verdicts_in_a_row_showed_it():
    life = Life(open_after=3)
    assert [kinds(life.see(finding())) for _ in range(4)] == [[], [], ["opened"], ["updated"]]
    assert life.book.open[0].opened == NOON + 45


def test_one_verdict_without_it_begins_the_count_anew():
    life = Life(open_after=2)
    assert [kinds(life.see(*seen)) for seen in ([finding()], [], [finding()], [finding()])] == [[], [], [], ["opened"]]


def test_what_could_not_be_judged_neither_counts_nor_begins_anew():
    life = Life(open_after=2)
    life.see(finding())
    assert life.see(verdict=Verdict.INSUFFICIENT_DATA) == []
    assert kinds(life.see(finding())) == ["opened"]


def test_it_began_when_the_fault_did_else_when_it_was_first_seen():
    dated = finding("dated", onset=Onset(at=NOON - 100))
    life = Life(open_after=2)
    life.see(dated, finding("undated"))
    life.see(dated, finding("undated"))
    assert {one.check: one.onset for one in life.book.open} == {"dated": NOON - 100, "undated": NOON + 15}


def test_it_closes_when_it_was_gone_for_long_enough():
    life = Life(open_after=1, close_after=60)
    life.see(finding())
    assert [kinds(life.see()) for _ in range(5)] == [[], [], [], ["closed"], []]
    assert life.book.open == ()


def test_what_returns_in_time_is_the_same_incident():
    life = Life(open_after=1, close_after=60)
    first = life.opened(finding())
    for _ in range(3):
        life.see()
    assert [one.incident.id for one in life.see(finding())] == [first.id]
    assert [kinds(life.see()) for _ in range(4)] == [[], [], [], ["closed"]], "its absence was counted anew"


def test_what_returns_after_its_end_is_another_incident_of_the_same_fingerprint():
    life = Life(open_after=1, close_after=15)
    first = life.opened(finding())
    life.see()
    again = life.opened(finding())
    assert again.id != first.id
    assert again.fingerprint == first.fingerprint


@pytest.mark.parametrize("verdict", [Verdict.INSUFFICIENT_DATA, Verdict.NO_CLEAR_CAUSE])
def test_verdicts_that_tell_nothing_freeze_it(verdict: Verdict):
    life = Life(open_after=1, close_after=60)
    life.opened(finding())
    assert [kinds(life.see(verdict=verdict)) for _ in range(20)] == [[]] * 20
    assert [kinds(life.see()) for _ in range(4)][-1] == ["closed"]


def test_it_closes_where_nothing_is_wrong_in_the_pages_that_alone_are_read():
    life = Life(open_after=1, close_after=15)
    life.opened(finding())
    as_read = replace(judged(verdict=Verdict.INSUFFICIENT_DATA), healthy_as_read=True)

    assert kinds(list(life.book.update(as_read, NOON + 60, life.time + 30))) == ["closed"]


def test_it_ends_when_traffic_does():
    life = Life(open_after=1, close_after=30)
    life.opened(finding())
    assert ["closed"] in [kinds(life.see(verdict=Verdict.IDLE)) for _ in range(4)]


def test_a_check_that_could_not_decide_keeps_its_incident_open():
    life = Life(open_after=1, close_after=30)
    silent = SyntheticTriton(models=()).explain().unknown
    assert silent, "an empty server leaves checks undecided"
    result, _ = silent[0]
    life.opened(finding(result.check.id, subject=result.subject))
    undecided = replace(judged(), results=(result,))
    for _ in range(10):
        life.time += 15.0
        assert life.book.update(undecided, NOON + life.time, life.time) == ()
    assert life.book.open


def test_a_whisper_is_no_incident():
    life = Life(open_after=1)
    assert life.see(finding(severity=Severity.INFO)) == []


def test_it_keeps_its_worst_moment():
    life = Life(open_after=1)
    life.see(finding(harm=0.3))
    life.see(finding(harm=0.9, severity=Severity.CRITICAL))
    life.see(finding(harm=0.4))
    one = life.book.open[0]
    assert (one.harm, one.peak, one.peak_at) == (0.4, 0.9, NOON + 30)
    assert (one.severity, one.worst) == (Severity.CRITICAL, Severity.CRITICAL)


def severities(life: Life, *measured: Severity) -> list[Severity]:
    """Return what the incident shows after each round of these severities."""
    found = []
    for severity in measured:
        life.see(finding(severity=severity))
        found.append(life.book.open[0].severity)
    return found


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_severity_is_raised_once_it_lasts_and_does_not_flap_with_each_round(rounds: int):
    life = Life(open_after=rounds)
    for _ in range(rounds - 1):
        life.see(finding(severity=Severity.WARNING))
    measured = [Severity.WARNING, *[Severity.CRITICAL] * rounds, *[Severity.WARNING, Severity.CRITICAL] * 40]
    assert severities(life, *measured) == [*[Severity.WARNING] * rounds, *[Severity.CRITICAL] * 81]


def test_one_odd_round_raises_no_severity():
    life = Life(open_after=2)
    life.see(finding(severity=Severity.WARNING))
    measured = [Severity.WARNING, Severity.CRITICAL] * 10
    assert set(severities(life, *measured)) == {Severity.WARNING}


def test_a_round_without_the_finding_begins_the_count_of_a_higher_severity_again():
    life = Life(open_after=2)
    severities_then = [Severity.WARNING, Severity.WARNING, Severity.CRITICAL]
    for severity in severities_then:
        life.see(finding(severity=severity))
    life.see()
    assert severities(life, Severity.CRITICAL) == [Severity.WARNING]


def test_a_severity_is_lowered_after_a_steady_while():
    life = Life(open_after=1)
    rounds = round(LOWER_AFTER.value / 15)
    shown = severities(life, Severity.CRITICAL, *[Severity.WARNING] * (rounds + 1))
    assert shown == [*[Severity.CRITICAL] * (rounds + 1), Severity.WARNING]
    assert severities(life, Severity.CRITICAL) == [Severity.CRITICAL]


def test_findings_have_the_severity_of_their_incidents():
    life = Life(open_after=1)
    life.see(finding(severity=Severity.CRITICAL))
    quiet, other = finding(severity=Severity.INFO), finding("other")
    shown = life.book.with_severities([finding(), other, quiet])
    assert [one.severity for one in shown] == [Severity.CRITICAL, Severity.WARNING, Severity.INFO]


def test_a_consequence_is_attached_to_the_incident_of_its_cause():
    life = Life(open_after=1)
    life.see(finding("cause"), finding("consequence", caused_by="cause"))
    of = {one.check: one for one in life.book.open}
    assert of["consequence"].caused_by == of["cause"].id
    assert of["cause"].caused_by is None


def test_a_consequence_that_was_there_first_is_attached_when_its_cause_opens():
    life = Life(open_after=2)
    life.opened(finding("consequence", caused_by="cause"))
    assert life.book.open[0].caused_by is None
    life.see(finding("cause"), finding("consequence", caused_by="cause"))
    changes = life.see(finding("cause"), finding("consequence", caused_by="cause"))
    of = {one.incident.check: one.incident for one in changes}
    assert of["consequence"].caused_by == of["cause"].id


def test_one_that_has_no_cause_any_more_is_a_root_again():
    life = Life(open_after=1)
    life.see(finding("cause"), finding("consequence", caused_by="cause"))
    life.see(finding("consequence"))
    assert {one.check: one.caused_by for one in life.book.open}["consequence"] is None


def test_a_restored_incident_keeps_its_identity_and_its_past():
    first = Life(open_after=1)
    before = first.opened(finding(harm=0.8))
    second = Life(open_after=2)
    second.book.restore(first.book.open)
    (change,) = second.see(finding(harm=0.2), clock=NOON + 600)
    assert change.kind is IncidentTransition.UPDATED
    assert (change.incident.id, change.incident.onset, change.incident.peak) == (before.id, before.onset, 0.8)


def test_a_restored_incident_that_is_gone_closes_as_any_other():
    first = Life(open_after=1)
    before = first.opened(finding())
    second = Life(close_after=30)
    second.book.restore(first.book.open)
    changes = [change for _ in range(3) for change in second.see(clock=NOON + 600)]
    assert [(change.kind, change.incident.id) for change in changes] == [(IncidentTransition.CLOSED, before.id)]


def test_what_is_closed_is_not_restored():
    book = IncidentBook("chat")
    book.restore([replace(Life(open_after=1).opened(finding()), closed=NOON)])
    assert book.open == ()


@pytest.mark.parametrize("step", [-86400.0, 86400.0])
def test_a_clock_that_steps_neither_closes_nor_doubles_it(step: float):
    life = Life(open_after=1, close_after=60)
    first = life.opened(finding())
    assert [one.incident.id for one in life.see(finding(), clock=NOON + step)] == [first.id]
    assert life.see(clock=NOON + step) == []
    (closed,) = [change for _ in range(3) for change in life.see(clock=NOON + step)]
    assert closed.incident.closed is not None
    assert closed.incident.closed >= closed.incident.opened


def test_the_same_round_judged_twice_counts_once():
    book = IncidentBook("chat", open_after=2)
    assert [book.update(judged(finding()), NOON, 100.0) for _ in range(5)] == [()] * 5


def test_everything_is_closed_when_its_deployment_is_watched_no_longer():
    life = Life(open_after=1)
    life.see(finding("a"), finding("b"))
    ended = life.book.end(NOON + 100)
    assert [(one.kind, one.incident.closed) for one in ended] == [(IncidentTransition.CLOSED, NOON + 100)] * 2
    assert life.book.open == ()
