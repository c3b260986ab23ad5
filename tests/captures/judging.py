"""Right, abstained or wrong: an explanation against its label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from tests.captures.recorded import Label


class Outcome(StrEnum):
    """How an explanation relates to its label."""

    SAME = "same"
    ABSTAINED = "abstained"
    WRONG = "WRONG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome, and what is wrong where something is."""

    outcome: Outcome
    wrong: str = ""


def judge(label: Label, explanation: Explanation) -> Judgement:
    """Return `same` for the labelled cause on its subject, `abstained` when nothing is loud, else what is wrong.

    A healthy capture is `same` when nothing is loud. Loud findings that the label allows beside a cause are no cause
    by themselves: where they rank first although a check for the cause exists, that is wrong.
    """
    return judge_actionable(label, explanation.actionable)


def judge_actionable(label: Label, actionable: Sequence[Finding]) -> Judgement:
    """Return the same of the loud findings alone, the first ranking first."""
    extra = sorted({finding.check for finding in actionable} - label.allowed)
    if extra:
        return Judgement(outcome=Outcome.WRONG, wrong=f"{', '.join(extra)} must not be loud")
    if forbidden := sorted({finding.check for finding in actionable} & label.never):
        return Judgement(outcome=Outcome.WRONG, wrong=f"{', '.join(forbidden)} is ruled out by the label")
    if not actionable:
        return Judgement(outcome=Outcome.SAME if label.healthy else Outcome.ABSTAINED)
    return _judge_top(label, actionable[0])


def judge_whole(label: Label, explanation: Explanation) -> Judgement:
    """Return the judgement of an unaltered capture, where abstaining is wrong if a check for the cause exists."""
    found = judge(label, explanation)
    if found.outcome is Outcome.ABSTAINED and label.decidable:
        return Judgement(outcome=Outcome.WRONG, wrong=f"missed {', '.join(sorted(label.causes))}")
    if label.healthy and explanation.verdict is not Verdict.HEALTHY:
        return Judgement(outcome=Outcome.WRONG, wrong=f"a healthy capture is {explanation.verdict}")
    return found


def _judge_top(label: Label, top: Finding) -> Judgement:
    if top.check not in label.causes:
        if label.decidable:
            return Judgement(outcome=Outcome.WRONG, wrong=f"{top.check} ranks first, which is not the cause")
        return Judgement(outcome=Outcome.ABSTAINED)
    for what, wanted, got in (
        ("model", label.model, top.subject.model),
        ("version", label.version, top.subject.version),
        ("layer", label.layer, top.layer.value),
    ):
        if wanted is not None and got != wanted:
            return Judgement(outcome=Outcome.WRONG, wrong=f"{top.check} on {what} {got}, not {wanted}")
    return Judgement(outcome=Outcome.SAME)
