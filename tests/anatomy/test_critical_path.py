"""What a stage can cost where branches run beside it."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from diagnostics.anatomy.anatomy import Anatomy, anatomies, entry_of
from diagnostics.diagnosis.explanation import Verdict
from diagnostics.diagnosis.validation import validated
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, ensemble_config, model_config

FORK = (
    ("first", ("in",), ("a",)),
    ("long", ("a",), ("b",)),
    ("side", ("a",), ("c",)),
    ("last", ("b", "c"), ("out",)),
)


def forked(*, long: float, side: float, queue: float, rest: float = 0.001) -> SyntheticTriton:
    """Return an ensemble of two branches: one executes for so long, beside it one that waits for its window as well."""
    batching = {"max_queue_delay_microseconds": round(queue * 1.15e6)}
    config = model_config("side", max_batch=16, batching=batching, groups=({"kind": "KIND_CPU", "count": 2},))
    plenty = ({"kind": "KIND_CPU", "count": 4},)
    members = (
        Stage("first", rate=20, execution=0.004, config=model_config("first")),
        Stage("long", rate=20, execution=long, config=model_config("long", groups=plenty)),
        Stage("side", rate=20, execution=side, queue=queue, config=config),
        Stage("last", rate=20, execution=0.004, config=model_config("last")),
    )
    seconds = 0.008 + max(long, side + queue)
    whole = Stage("chat", rate=20, execution=seconds, overhead=rest, config=ensemble_config("chat", *FORK))
    return SyntheticTriton(models=(*members, whole))


def most(triton: SyntheticTriton) -> dict[str, float]:
    (item,) = anatomies(triton.evidence())
    return {stage.model: stage.most_seconds for stage in item.stages}


def test_a_branch_that_another_outlasts_costs_no_more_than_no_path_accounts_for() -> None:
    found = most(forked(long=0.08, side=0.004, queue=0.026))

    assert found["side"] == pytest.approx(0.001, abs=1e-5)
    # Without it, requests wait for the branch beside it.
    assert found["long"] == pytest.approx(0.081 - 0.03, abs=1e-4)


def test_the_longest_branch_costs_what_it_takes_beyond_the_other() -> None:
    found = most(forked(long=0.02, side=0.01, queue=0.06))

    assert found["side"] == pytest.approx(0.07 - 0.02 + 0.001, abs=1e-4)


def test_of_two_branches_that_take_as_long_either_may_be_the_one_to_shorten() -> None:
    """Neither alone saves anything, and both together do."""
    found = most(forked(long=0.08, side=0.02, queue=0.06))

    assert found["side"] == found["long"] == inf


def test_the_mean_of_a_member_that_others_call_too_is_not_that_of_the_ensembles_requests() -> None:
    triton = forked(long=0.08, side=0.004, queue=0.026)
    shared = tuple(replace(one, rate=60) if one.name == "long" else one for one in triton.models)

    assert most(replace(triton, models=shared))["side"] > 0.03


def test_an_entry_says_what_its_stage_can_cost() -> None:
    evidence = forked(long=0.08, side=0.004, queue=0.026).evidence()
    anatomy: tuple[Anatomy, ...] = anatomies(evidence)
    entry = entry_of(anatomy, evidence, Subject(server=SERVER, model="side", version="1"))

    assert entry is not None
    assert entry.most_seconds == pytest.approx(0.001, abs=1e-5)


def test_a_window_on_a_branch_that_is_not_the_longest_is_no_cause() -> None:
    explanation = forked(long=0.08, side=0.004, queue=0.026).explain()

    assert explanation.verdict is Verdict.HEALTHY
    assert explanation.symptoms == ()


def test_the_same_window_on_the_longest_branch_is_the_cause() -> None:
    explanation = forked(long=0.02, side=0.01, queue=0.06).explain()

    assert [(one.check, one.subject.model) for one in explanation.actionable] == [("batch-window-mistuned", "side")]
    assert explanation.actionable[0].impact.seconds_per_request == pytest.approx(0.051, abs=0.001)


def test_an_engine_on_the_longest_branch_has_the_time_that_no_row_accounts_for() -> None:
    """Its row ends at once: by the rows alone, the branch beside it would seem the longest."""
    triton = forked(long=0.001, side=0.004, queue=0.026, rest=0.1)
    engine = model_config("long", backend="vllm")
    models = tuple(replace(one, config=engine) if one.name == "long" else one for one in triton.models)
    (item,) = anatomies(replace(triton, models=models).evidence())
    stages = {stage.model: stage for stage in item.stages}

    assert stages["long"].seconds == pytest.approx(item.mean_seconds - 0.008, abs=1e-4)
    # What the rows leave holds the waits for whichever branch is last, too: it is no time that was measured.
    assert stages["side"].most_seconds > stages["side"].seconds


def test_requests_that_wait_beside_a_longer_branch_are_no_riddle() -> None:
    """Nearly as long as the other branch: if nobody waited at all, that would save 9 of 97 ms, and nothing is left."""
    explanation = forked(long=0.08, side=0.02, queue=0.068).explain()
    proven = validated(explanation)

    for reported in (explanation, proven):
        assert reported.findings == ()
        assert reported.symptoms == ()
        assert reported.verdict is Verdict.HEALTHY
