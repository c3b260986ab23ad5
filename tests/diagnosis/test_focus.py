"""What is told of one entry of a server that has others."""

from __future__ import annotations

from diagnostics.diagnosis.explanation import Verdict, focused
from diagnostics.window.window import window_of
from tests.builders import Stage, SyntheticTriton, chain, explained, model_config
from tests.builders_traffic import indexed

FAST = Stage("fast", rate=20, execution=0.01, config=model_config("fast"))
QUEUED = Stage("slow", rate=38, execution=0.0245, queue=0.17, config=model_config("slow"))
BROKEN = indexed(6.0, ("fast", "1", "READY", ""), ("slow", "1", "READY", ""), ("broken", "1", "UNAVAILABLE", "no file"))


def test_a_model_that_nobody_asks_for_is_no_cause_of_anothers() -> None:
    explanation = explained(window_of([*SyntheticTriton(models=(FAST,)).scrapes(), BROKEN]))
    assert explanation.actionable[0].subject.model == "broken"
    of_fast = focused(explanation, "fast")
    assert (of_fast.verdict, of_fast.findings, of_fast.layer) == (Verdict.HEALTHY, (), None)
    assert focused(explanation, "broken").actionable == explanation.actionable


def test_what_takes_time_from_requests_is_reported_whoever_is_requested() -> None:
    explanation = explained(window_of([*SyntheticTriton(models=(FAST, QUEUED)).scrapes(), BROKEN]))
    of_fast = focused(explanation, "fast")
    assert of_fast.verdict is Verdict.DEGRADED
    assert [finding.subject.model for finding in of_fast.actionable] == ["slow"]


def test_an_ensembles_members_are_its_own_and_come_first() -> None:
    worse = Stage("worse", rate=38, execution=0.0245, queue=0.9, config=model_config("worse"))
    entry = Stage("entry", rate=38, overhead=0.2, config=chain("entry", "slow"))
    explanation = SyntheticTriton(models=(QUEUED, worse, entry)).explain()
    assert {finding.subject.model for finding in explanation.actionable} == {"slow", "worse"}
    assert focused(explanation, "entry").actionable[0].subject.model == "slow"
    assert focused(explanation, "worse").actionable[0].subject.model == "worse"
