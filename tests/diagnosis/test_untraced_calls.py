"""Deployments in which a model calls others from inside, without traces: who is the cause of what waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.anatomy.anatomy import Phase
from diagnostics.diagnosis.explanation import Explanation
from tests.builders import Stage, SyntheticTriton, chain, model_config


def several(name: str, count: int) -> dict[str, object]:
    return model_config(name, groups=[{"kind": "KIND_CPU", "count": count}])


# Twelve instances, each of which waits for the one of `safety`: 24.5 requests per second of 40 ms.
GUARD = Stage("guard", rate=24.5, execution=0.489, queue=0.3, config=several("guard", 12))
SAFETY = Stage("safety", rate=24.5, execution=0.04, queue=0.447, config=several("safety", 1))
# Two instances that call two models in turn, which have room.
WRAPPER = Stage("wrapper", rate=48, execution=0.041, queue=0.5, config=several("wrapper", 2))
FIRST = Stage("first", rate=48, execution=0.016, config=several("first", 2))
SECOND = Stage("second", rate=48, execution=0.023, config=several("second", 3))


def explained(*models: Stage) -> Explanation:
    return SyntheticTriton(models=models, before=0.0, interval=2.0).explain(reads=16)


def actionable(found: Explanation) -> list[tuple[str, str | None]]:
    return [(finding.check, finding.subject.model) for finding in found.actionable]


def test_the_full_callee_is_the_cause_of_what_waits_for_its_caller() -> None:
    found = explained(GUARD, SAFETY)

    assert actionable(found) == [("single-instance-serialization", "safety")]
    finding = found.findings[0]
    assert finding.impact.mean_seconds == pytest.approx(0.789)
    # Nearly all of the 0.447 s in the callee's queue, and with them of the 0.3 s in the caller's.
    assert finding.impact.share_of_latency > 0.8
    assert "guard" in finding.summary


def test_a_callee_that_some_requests_need_is_the_cause_of_what_all_wait_for_its_caller() -> None:
    """A quarter of the requests wait 0.66 s for it, a tenth of what all of them wait for its caller."""
    caller = Stage("guard", rate=16, execution=0.244, queue=1.3, config=several("guard", 4))
    found = explained(caller, replace(SAFETY, rate=4, execution=0.246, queue=0.66))

    assert actionable(found) == [("single-instance-serialization", "safety")]
    assert found.findings[0].impact.share_of_latency > 0.4
    assert "guard, which calls it, waits as long" in found.findings[0].summary


def test_callees_with_room_leave_the_caller_as_the_cause() -> None:
    found = explained(WRAPPER, FIRST, SECOND)

    assert actionable(found) == [("bls-serialization", "wrapper")]
    assert "second and first" in found.findings[0].summary


def test_calls_that_do_not_fit_one_after_another_are_made_at_once_and_hold_the_caller_all_the_same() -> None:
    short = Stage("short", rate=48, execution=0.03, config=several("short", 4))
    long = Stage("long", rate=48, execution=0.038, config=several("long", 4))
    found = explained(WRAPPER, long, short)

    assert actionable(found) == [("bls-serialization", "wrapper")]
    assert "waits for long and short, which it calls at once" in found.findings[0].summary
    advised = found.findings[0].suggestion
    assert advised is not None
    assert "async_exec" not in advised.text
    assert "takes further requests while it waits" in advised.text
    in_turn = explained(WRAPPER, FIRST, SECOND).findings[0]
    assert "at once" not in in_turn.summary
    assert "async_exec" in in_turn.suggestion.text  # type: ignore[union-attr]


def test_what_a_caller_computes_is_filed_where_it_is_spent() -> None:
    (item,) = explained(GUARD, SAFETY).anatomy

    own, called = item.stages
    assert (own.model, own.caller, called.model, called.caller) == ("guard", "", "safety", "guard")
    assert own.cells[Phase.COMPUTE] == pytest.approx(0.002, abs=0.001)
    assert called.cells[Phase.QUEUE] == pytest.approx(0.447, abs=0.001)
    assert sum(stage.seconds for stage in item.stages) == pytest.approx(0.789)


def test_an_ensembles_member_that_calls_a_full_model_is_not_the_cause() -> None:
    chat = Stage("chat", rate=24.5, execution=0.5, overhead=0.3, config=chain("chat", "pre", "guard"))
    pre = Stage("pre", rate=24.5, execution=0.004, config=several("pre", 1))
    found = explained(chat, pre, GUARD, SAFETY)

    assert actionable(found) == [("single-instance-serialization", "safety")]
    assert found.findings[0].subject.ensemble == "chat"
    assert [item.ensemble for item in found.anatomy] == ["chat"]


def test_a_full_member_of_an_ensemble_that_is_called_is_the_cause() -> None:
    pipe = Stage("pipe", rate=24.5, execution=0.04, overhead=0.447, config=chain("pipe", "safety"))
    found = explained(GUARD, pipe, SAFETY)

    assert actionable(found) == [("single-instance-serialization", "safety")]
    assert found.findings[0].impact.share_of_latency > 0.8


def test_a_model_beside_another_of_the_same_rate_stays_the_cause() -> None:
    """A client calls both: a request to the other one takes longer than an execution."""
    other = Stage("other", rate=24.5, execution=0.06, config=several("other", 4))
    alone = Stage("alone", rate=24.5, execution=0.04, queue=0.4, config=several("alone", 1))

    assert actionable(explained(alone, other)) == [("single-instance-serialization", "alone")]


def test_a_stage_that_is_called_once_is_no_entry_and_one_that_clients_call_too_is() -> None:
    more = Stage("safety", rate=40, execution=0.02, queue=0.467, config=several("safety", 1))

    assert len(explained(GUARD, SAFETY).anatomy) == 1
    assert len(explained(GUARD, more).anatomy) == 2
