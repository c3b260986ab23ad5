from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding, Impact
from diagnostics.signals.signal import Subject
from diagnostics.slo.bins import Bins, BudgetCause, Tally, attributed
from diagnostics.slo.report import report_on
from diagnostics.slo.slo import Promise, Slo, Triton

LATENCY = Triton(promise=Promise.LATENCY, model="chat", seconds=0.5)
AVAILABILITY = Triton(promise=Promise.AVAILABILITY, model="chat")
SAFETY = Subject(server="triton-0", model="safety", version="1", ensemble="chat")
CAUSE = BudgetCause("a", "single-instance-serialization", "triton-0", "safety")


def finding(identity: str, share: float, *, failed: float = 0.0, **changes: object) -> Finding:
    impact = Impact(
        mean_seconds=1.0, seconds_per_request=share, share_of_latency=share, share_of_requests_failed=failed
    )
    made: object = SimpleNamespace(
        id=identity,
        check="single-instance-serialization",
        severity=Severity.WARNING,
        subject=SAFETY,
        impact=impact,
        caused_by=None,
    )
    vars(made).update(changes)
    return made  # type: ignore[return-value]


def explanation(*found: Finding) -> Explanation:
    actionable = [one for one in found if one.severity.actionable]
    return SimpleNamespace(findings=found, actionable=actionable, evidence=None)  # type: ignore[return-value]


def bad(count: float, total: float = 100.0) -> Tally:
    return Tally.exact(total, count, "metrics")


@settings(max_examples=40)
@given(st.lists(st.floats(0, 1), max_size=6), st.floats(0, 1e6), st.floats(0, 0.2))
def test_causes_never_take_more_than_there_is(shares: list[float], count: float, failed: float) -> None:
    found = [finding(str(n), share, failed=failed) for n, share in enumerate(shares)]
    for sli in (LATENCY, AVAILABILITY):
        took = attributed(sli, explanation(*found), "triton-0", bad(count, 1e6))
        assert all(part >= 0 for part in took.values())
        assert sum(took.values()) <= count * (1 + 1e-9)


def test_a_cause_takes_the_share_of_latency_that_it_claims() -> None:
    took = attributed(LATENCY, explanation(finding("a", 0.72), finding("b", 0.1)), "triton-0", bad(50))
    assert took == {CAUSE: pytest.approx(36.0), CAUSE._replace(fingerprint="b"): pytest.approx(5.0)}


def test_a_consequence_counts_for_its_cause() -> None:
    found = explanation(finding("a", 0.5), finding("b", 0.2, caused_by="a"), finding("c", 0.1, caused_by="b"))
    assert attributed(LATENCY, found, "triton-0", bad(10)) == {CAUSE: pytest.approx(8.0)}


def test_failures_count_for_the_cause_that_claims_failures() -> None:
    stall, full = finding("a", 0.5), finding("b", 0.0, failed=0.1, check="queue-rejections", caused_by="a")
    down = finding("c", 0.0, failed=1.0, check="model-unavailable")
    assert [one.check for one in attributed(AVAILABILITY, explanation(stall, full), "triton-0", bad(10))] == [
        "queue-rejections"
    ]
    errors = finding("b", 0.0, failed=0.1, check="request-failures", caused_by="c")
    assert {one.check for one in attributed(AVAILABILITY, explanation(down, errors), "triton-0", bad(10))} == {
        "model-unavailable"
    }


def test_failures_take_what_they_failed_of_all_that_was_bad() -> None:
    took = attributed(AVAILABILITY, explanation(finding("a", 0.9, failed=0.04)), "triton-0", bad(10))
    assert took == {CAUSE: pytest.approx(4.0)}


@pytest.mark.parametrize(
    "changes",
    [
        {"severity": Severity.INFO},
        {"subject": replace(SAFETY, server="triton-1")},
        {"subject": replace(SAFETY, ensemble="other")},
    ],
)
def test_what_is_quiet_or_about_other_requests_takes_nothing(changes: dict[str, object]) -> None:
    assert attributed(LATENCY, explanation(finding("a", 0.9, **changes)), "triton-0", bad(10)) == {}


def test_what_no_cause_took_is_unexplained_and_shares_are_of_the_whole_period() -> None:
    bins, now = Bins(), 1_000_000.0
    bins.add(now - 7200, bad(30, 1000), {CAUSE: 18.0})
    bins.add(now - 60, bad(10, 1000), {})
    report = report_on(Slo(name="a", objective=0.99, sli=LATENCY), bins, now)
    assert [(one.cause, one.share) for one in report.spent] == [(CAUSE, pytest.approx(0.45))]
    assert report.unexplained == pytest.approx(0.55)


def test_old_minutes_become_hours_and_nothing_is_lost_or_counted_twice() -> None:
    bins, now = Bins(), 1_000_000.0
    for minute in range(0, 3 * 86400, 600):
        bins.add(now - minute, bad(1, 10), {CAUSE: 0.5})
    before = bins.over(now - 4 * 86400, now)
    bins.forget(now - 30 * 86400, now - 86400)
    after = bins.over(now - 4 * 86400, now)
    assert (after.tally, after.causes) == (before.tally, before.causes)
    half = bins.over(now - 2 * 86400, now)
    assert half.tally.total == pytest.approx(before.tally.total * 2 / 3, rel=0.02)


def test_a_budget_is_reckoned_for_the_whole_period_from_the_traffic_that_was_seen() -> None:
    bins, now = Bins(), 1_000_000.0
    bins.add(now - 30, bad(1, 10), {}, began=now - 3600)  # ten requests in an hour, one of them bad
    report = report_on(Slo(name="a", objective=0.999, sli=AVAILABILITY), bins, now)
    assert report.allowed == pytest.approx(7.2)
    assert report.left == pytest.approx(1 - 0.139, abs=1e-3)  # the workbook's example: 13.9 % of the budget
    assert report.alerts == ()


def test_a_part_of_a_minute_counts_as_the_part_that_it_is() -> None:
    bins, slo = Bins(), Slo(name="a", objective=0.99, sli=AVAILABILITY)
    bins.add(119.0, bad(1, 100), {}, began=110.0, ended=125.0)
    bins.add(130.0, bad(1, 100), {}, began=125.0, ended=130.0)
    report = report_on(slo, bins, 1_000.0)
    assert report.seen == 20.0
    assert report.allowed == pytest.approx(2 * slo.period / 20.0)
    bins.add(900.0, bad(0, 0), {}, began=895.0, ended=900.0)  # after a pause, and without traffic
    assert report_on(slo, bins, 1_000.0).seen == 25.0
