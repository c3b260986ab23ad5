"""Diagnoses against labels: top-1 hits, false alarms, extra findings, abstentions, and how far confidence is right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture
from tests.builders import explained

_RIGHT = ("hit", "silent", "excused")
_BINS = ((0.0, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 1.01))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One incident's result.

    Of a fault `hit`, `extra` (besides the cause another that is not true), `wrong`, `missed` (called healthy),
    `abstained`, or `excused` (abstained where what is visible does not suffice); of a healthy one `silent` or `alarm`.
    """

    name: str
    kind: str
    result: str
    stated: str
    confidence: float | None


def score(folder: Path, *, every: bool = False, by_kind: bool = False) -> int:
    """Print the table of a folder of recorded incidents; return 1 if any cause was wrong or any alarm false.

    Args:
        folder: the incidents and their `labels.json`.
        every: a line for each incident, not only for those that are not right.
        by_kind: a line for each kind: how many of its incidents are right, and what the others are.
    """
    labels = json.loads((folder / "labels.json").read_text("utf-8"))
    results = [diagnose(folder / f"{name}.tar.xz", name, label) for name, label in sorted(labels.items())]
    for line in _lines(results, every=every):
        print(line)
    for line in _by_kind(results) if by_kind else ():
        print(line)
    return 1 if any(scored.result in ("wrong", "alarm", "extra") for scored in results) else 0


def diagnose(path: Path, name: str, label: Mapping[str, object]) -> Scored:
    """Return what the tool says of one recorded incident, judged by its label."""
    return judged(explained(window_of(open_capture(path).scrapes())), name, label)


def judged(explanation: Explanation, name: str, label: Mapping[str, object]) -> Scored:
    """Return an explanation judged by the label of its incident."""
    actionable = explanation.actionable
    stated = f"{explanation.verdict.value} " + ", ".join(
        f"{f.check}({f.subject.model or f.subject.ensemble})" for f in actionable
    )
    return Scored(
        name=name,
        kind=str(label.get("kind", "")),
        result=_result(label, explanation),
        stated=stated,
        confidence=actionable[0].confidence if actionable else None,
    )


def _result(label: Mapping[str, object], explanation: Explanation) -> str:
    actionable, wanted = explanation.actionable, label["cause"]
    if wanted == "healthy":
        return "alarm" if actionable else "silent"
    assert isinstance(wanted, list)
    if not actionable:
        if explanation.verdict is Verdict.HEALTHY:
            return "hit" if "healthy" in wanted else "missed"
        return "excused" if label.get("abstain_ok") else "abstained"
    also = label.get("also", [])
    assert isinstance(also, list)
    top = actionable[0]
    if top.check not in wanted or not _is_about(top, label) or _promises_in_vain(top, label):
        return "wrong"
    return "extra" if {finding.check for finding in actionable} - {*wanted, *also} else "hit"


def _is_about(finding: Finding, label: Mapping[str, object]) -> bool:
    """Return whether a finding's subject is what the label names: one model, or one of several models or ensembles."""
    model, subject = label.get("model"), finding.subject
    if isinstance(model, list):
        return (subject.model or subject.ensemble) in model
    return model in (None, subject.model)


def _promises_in_vain(finding: Finding, label: Mapping[str, object]) -> bool:
    """Return whether a finding suggests more instances of a model that they cannot help."""
    idle = label.get("no_gain", [])
    assert isinstance(idle, list)
    change = finding.suggestion.change if finding.suggestion else None
    return (
        change is not None
        and change.model in idle
        and any(setting.path == "instance_group.count" for setting in change.settings)
    )


def _by_kind(results: Sequence[Scored]) -> Iterator[str]:
    for kind in sorted({scored.kind for scored in results}):
        own = [scored.result for scored in results if scored.kind == kind]
        others = ", ".join(sorted(result for result in own if result not in _RIGHT))
        yield f"{kind:<38}{sum(result in _RIGHT for result in own)} of {len(own)}  {others}".rstrip()


def _lines(results: Sequence[Scored], *, every: bool) -> Iterator[str]:
    for scored in results:
        if every or scored.result not in _RIGHT:
            yield f"{scored.name}  {scored.kind:<24}{scored.result:<11}{scored.stated}"
    counts = Counter(scored.result for scored in results)
    faults = sum(counts[result] for result in ("hit", "extra", "wrong", "abstained", "missed", "excused"))
    decoys = counts["silent"] + counts["alarm"]
    right = counts["hit"] + counts["extra"]
    yield f"top-1 {right} of {faults}, " + ", ".join(
        f"{what} {counts[what]}"
        for what in ("excused", "abstained", "missed", "wrong")
        if what != "excused" or counts["excused"]
    )
    yield f"extra findings in {counts['extra']}; false alarms {counts['alarm']} of {decoys} healthy"
    yield "confidence     incidents  right"
    for low, high in _BINS:
        inside = [s for s in results if s.confidence is not None and low <= s.confidence < high]
        right = sum(1 for s in inside if s.result in ("hit", "extra"))
        if inside:
            yield f"{low:.1f} to {min(high, 1.0):.1f}{len(inside):>14}{right:>7}"
