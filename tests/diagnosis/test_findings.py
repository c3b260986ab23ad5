"""Order, claims, links and names of findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.checks.check import Claim, Fires, Severity
from diagnostics.diagnosis.finding import Finding, findings, fingerprint, id_of, unclaimed
from diagnostics.diagnosis.link import CAUSED_BY, LOAD, cause_of
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.ledger import EntryPoint, Ledger
from diagnostics.signals.signal import Subject
from tests import builders
from tests.builders import SyntheticTriton, chain, model_config
from tests.checks.designed import DESIGNED
from tests.stated_evidence import SUBJECT, StatedEvidence

SINGLE, COLLAPSE, COLD = "single-instance-serialization", "batch-size-collapse", "cold-start"
BURSTS = "bursty-arrivals"
REJECTIONS, FAILURES, BLIND = "queue-rejections", "request-failures", "telemetry-blind-spot"
MEAN = 0.4
ANATOMY = Anatomy(
    server=SUBJECT.server,
    ensemble=None,
    requests=100,
    mean_seconds=MEAN,
    stages=(Stage(model="model", cells={Phase.QUEUE: 0.3, Phase.COMPUTE: 0.1}),),
    unattributed_seconds=0.0,
    source="statistics",
)


def fired(
    check: str, seconds: float = 0.0, *, on: Subject = SUBJECT, phase: Phase = Phase.QUEUE, **more: object
) -> Result:
    evidence = StatedEvidence({})
    entry = EntryPoint(ensemble=None, mean_seconds=MEAN, weight=1.0, requests=100)
    claims = (Claim(stage=on.model or "", phase=phase, seconds=seconds),) if seconds else ()
    outcome = Fires(summary=check, claims=claims, **{"saved_seconds": seconds, **more})  # type: ignore[arg-type]
    registered: RegisteredCheck = catalogue()[check]
    ledger = Ledger(evidence, lambda _: entry)
    return Result(check=registered, subject=on, outcome=outcome, noted=ledger, entry=entry)


def found(*results: Result) -> tuple[Finding, ...]:
    return findings(results, (ANATOMY,))


def names(*results: Result) -> list[str]:
    return [finding.check for finding in found(*results)]


class TestClaims:
    """A cell-second has one root."""

    def test_what_one_finding_explains_no_other_does(self) -> None:
        """The one that saves more takes the cell first; the other gets what is left."""
        first, second = found(fired(COLLAPSE, 0.2), fired(SINGLE, 0.25))

        assert (first.check, first.impact.seconds_per_request) == (SINGLE, 0.25)
        assert second.impact.seconds_per_request == pytest.approx(0.05)

    def test_shares_never_exceed_the_whole(self) -> None:
        shares = [f.impact.share_of_latency for f in found(fired(COLLAPSE, 9.0), fired(SINGLE, 9.0), fired(COLD, 9.0))]

        assert sum(shares) <= 1

    def test_different_phases_are_different_cells(self) -> None:
        both = found(fired(SINGLE, 0.3), fired(COLD, 0.1, phase=Phase.COMPUTE))

        assert sum(finding.impact.share_of_latency for finding in both) == pytest.approx(1.0)

    def test_what_nobody_claims_is_left(self) -> None:
        left = unclaimed((fired(SINGLE, 0.1),), (ANATOMY,))

        assert left[SUBJECT.server, "model", "model", Phase.QUEUE] == pytest.approx(0.2)
        assert left[SUBJECT.server, "model", "model", Phase.COMPUTE] == pytest.approx(0.1)

    def test_the_same_model_on_another_server_loses_time_of_its_own(self) -> None:
        stages = (Stage(model="model", cells={Phase.QUEUE: 0.0, Phase.COMPUTE: 0.1}),)
        healthy = replace(ANATOMY, server="sibling", mean_seconds=0.1, stages=stages)

        for order in ((ANATOMY, healthy), (healthy, ANATOMY)):
            assert findings((fired(SINGLE, 0.25),), order)[0].impact.seconds_per_request == pytest.approx(0.25)

    def test_a_stage_that_is_not_in_the_anatomy_has_nothing_to_claim(self) -> None:
        elsewhere = replace(SUBJECT, model="elsewhere")

        assert found(fired(SINGLE, 0.1, on=elsewhere))[0].impact.seconds_per_request == 0


class TestOrder:
    """Loud before quiet, causes before consequences, telemetry last, then harm."""

    def test_the_larger_harm_comes_first(self) -> None:
        assert names(fired(COLLAPSE, 0.05), fired(FAILURES, failed_share=0.4)) == [FAILURES, COLLAPSE]
        assert names(fired(COLLAPSE, 0.2), fired(FAILURES, failed_share=0.4)) == [COLLAPSE, FAILURES]

    def test_a_rival_that_forecasts_put_first_takes_the_seconds(self) -> None:
        """Both claim the same queue; the one whose change saves more of it is the cause, whatever the checks say."""
        rivals = fired(SINGLE, 0.3), fired(COLLAPSE, 0.2)
        ids = {one.check.id: id_of(one) for one in rivals}
        turned = findings(rivals, (ANATOMY,), ahead=[(ids[COLLAPSE], ids[SINGLE])])

        assert [one.check for one in findings(rivals, (ANATOMY,))] == [SINGLE, COLLAPSE]
        assert [(one.check, round(one.impact.seconds_per_request, 3)) for one in turned] == [
            (COLLAPSE, 0.2),
            (SINGLE, 0.1),
        ]

    def test_a_consequence_ranks_below_its_cause_however_much_it_harms(self) -> None:
        ordered = found(fired(REJECTIONS, failed_share=0.9), fired(SINGLE, 0.1))

        assert [finding.check for finding in ordered] == [SINGLE, REJECTIONS]
        assert ordered[1].caused_by == ordered[0].id

    def test_telemetry_never_ranks_before_another_actionable_one(self) -> None:
        server = Subject(server=SUBJECT.server)
        blind = fired(BLIND, on=server, severity=Severity.CRITICAL)

        assert names(blind, fired(COLLAPSE, 0.01)) == [COLLAPSE, BLIND]

    def test_what_is_only_worth_knowing_comes_last(self) -> None:
        server = Subject(server=SUBJECT.server)

        assert names(fired(BLIND, on=server, severity=Severity.INFO), fired(COLLAPSE, 0.01))[-1] == BLIND

    def test_the_order_does_not_depend_on_that_of_the_results(self) -> None:
        results = [fired(COLLAPSE, 0.05), fired(SINGLE, 0.1), fired(COLD, 0.1, phase=Phase.COMPUTE)]

        assert names(*results) == names(*reversed(results))

    @pytest.mark.parametrize(
        ("seconds", "failed", "severity"),
        [(0.2, 0.0, Severity.CRITICAL), (0.1, 0.0, Severity.WARNING), (0.0, 0.05, Severity.CRITICAL)],
    )
    def test_half_of_the_time_or_a_twentieth_of_the_requests_is_critical(
        self, seconds: float, failed: float, severity: Severity
    ) -> None:
        assert found(fired(COLLAPSE, seconds, failed_share=failed))[0].severity is severity


class TestLinks:
    """Which causes produce which others."""

    def test_no_cause_is_its_own_consequence(self) -> None:
        assert tuple(TopologicalSorter(CAUSED_BY).static_order())

    def test_only_designed_checks_are_linked(self) -> None:
        assert {*CAUSED_BY, *(cause for causes in CAUSED_BY.values() for cause in causes)} <= set(DESIGNED)

    @pytest.mark.parametrize(
        ("began", "load_began", "follows"),
        [(32.0, 30.0, True), (30.0, 30.0, True), (10.0, 30.0, False), (None, 30.0, False), (32.0, None, False)],
    )
    def test_a_burst_that_begins_with_a_load_that_held_requests_is_the_loads(
        self, began: float | None, load_began: float | None, follows: bool
    ) -> None:
        """Clients that send bunched all along do so for reasons of their own."""
        bursts, load = fired(BURSTS, 0.3, began=began), fired(LOAD, 0.1, phase=Phase.GAP, began=load_began)
        ordered = found(bursts, load)

        assert [one.check for one in ordered] == ([LOAD, BURSTS] if follows else [BURSTS, LOAD])
        assert (ordered[1].caused_by == ordered[0].id) is follows

    def test_a_load_of_a_model_that_others_call_is_no_cause(self) -> None:
        elsewhere = replace(SUBJECT, model="elsewhere", ensemble=None)
        bursts, load = fired(BURSTS, 0.3, began=32.0), fired(LOAD, 0.1, on=elsewhere, began=30.0)

        assert [one.caused_by for one in found(bursts, load)] == [None, None]

    def test_the_likeliest_present_cause_is_taken(self) -> None:
        others: Mapping[tuple[str, str | None], str] = {(SINGLE, "m"): "one", (COLLAPSE, "m"): "two"}

        assert cause_of(REJECTIONS, "m", others) == "two"

    def test_another_models_finding_causes_nothing_here(self) -> None:
        assert cause_of(REJECTIONS, "m", {(SINGLE, "other"): "one"}) is None
        assert cause_of(SINGLE, "m", {}) is None


class TestFingerprints:
    """An id stays while the cause does, and differs where anything else does."""

    def test_no_value_or_time_goes_into_it(self) -> None:
        assert found(fired(SINGLE, 0.1))[0].id == found(fired(SINGLE, 0.3), fired(COLLAPSE, 0.01))[0].id

    def test_each_part_of_the_subject_does(self) -> None:
        subjects = [
            SUBJECT,
            replace(SUBJECT, server="triton-1"),
            replace(SUBJECT, model="other"),
            replace(SUBJECT, version="2"),
            replace(SUBJECT, gpu="GPU-0"),
            replace(SUBJECT, ensemble="chat"),
        ]
        ids = {fingerprint(check, subject) for subject in subjects for check in (SINGLE, COLLAPSE)}

        assert len(ids) == 12

    def test_it_is_the_same_in_every_release(self) -> None:
        """Alerts and histories are joined by it: changing it makes every open finding a new one."""
        assert fingerprint(SINGLE, SUBJECT) == "91993f0a2e84b26f"


def test_a_whole_explanation_shares_out_one_stage_and_links_nothing_by_chance() -> None:
    """Two slow stages in one ensemble: both are found, the slower one first, and their shares fit into one request."""
    slow = builders.Stage("slow", rate=38, execution=0.0245, queue=0.3, config=model_config("slow"))
    less = replace(slow, name="less", queue=0.17, config=model_config("less"))
    chat = builders.Stage("chat", rate=38, overhead=0.53, config=chain("chat", "slow", "less"))
    actionable = SyntheticTriton(models=(chat, slow, less)).explain().actionable

    assert [finding.subject.model for finding in actionable] == ["slow", "less"]
    assert all(finding.subject.ensemble == "chat" and finding.caused_by is None for finding in actionable)
    assert sum(finding.impact.share_of_latency for finding in actionable) <= 1
    assert all(a.impact.harm >= b.impact.harm for a, b in pairwise(actionable))
