from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.signals.signal import Subject
from diagnostics.tuning.changes import ConfigChange, Setting
from tests.benchmark.score import judged

LANES = "single-instance-serialization"


def explanation(verdict: Verdict, *found: tuple[str, str], change: ConfigChange | None = None) -> Explanation:
    """Return what a judge looks at of an explanation: its loud findings, each a check and a model."""
    actionable = [
        SimpleNamespace(
            check=check,
            confidence=0.9,
            subject=Subject(server="triton-0", model=model),
            suggestion=SimpleNamespace(change=change),
        )
        for check, model in found
    ]
    return cast("Explanation", SimpleNamespace(verdict=verdict, actionable=actionable))


def result(label: dict[str, object], stated: Explanation) -> str:
    return judged(stated, "kind-0000", label).result


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ({"cause": [LANES]}, "abstained"),
        ({"cause": [LANES], "abstain_ok": True}, "excused"),
    ],
)
def test_abstaining_is_right_where_the_label_says_so(label: dict[str, object], expected: str) -> None:
    assert result(label, explanation(Verdict.NO_CLEAR_CAUSE)) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ({"cause": [LANES, "healthy"]}, "hit"),
        ({"cause": [LANES], "abstain_ok": True}, "missed"),
        ({"cause": "healthy"}, "silent"),
    ],
)
def test_healthy_over_a_fault_is_missed_unless_it_may_be_stated(label: dict[str, object], expected: str) -> None:
    assert result(label, explanation(Verdict.HEALTHY)) == expected


@pytest.mark.parametrize(("model", "expected"), [("oak", "hit"), ("elm", "hit"), ("yew", "wrong")])
def test_a_finding_may_be_about_any_of_several_models(model: str, expected: str) -> None:
    label: dict[str, object] = {"cause": [LANES], "model": ["elm", "oak"]}

    assert result(label, explanation(Verdict.DEGRADED, (LANES, model))) == expected


@pytest.mark.parametrize(("idle", "expected"), [(["oak"], "wrong"), (["elm"], "hit")])
def test_more_instances_that_cannot_help_are_wrong(idle: list[str], expected: str) -> None:
    more = ConfigChange(model="oak", settings=(Setting(path="instance_group.count", value=2),))
    label: dict[str, object] = {"cause": [LANES], "no_gain": idle}

    assert result(label, explanation(Verdict.DEGRADED, (LANES, "oak"), change=more)) == expected
