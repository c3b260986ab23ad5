"""Diagnoses against labels: top-1 hits, false alarms, extra findings, abstentions, and how far confidence is right."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnostics.diagnosis.explanation import Explanation, Verdict, explain_window
from diagnostics.window.window import window_of
from diagnostics.wire.capture import open_capture

_BINS = ((0.0, 0.6), (0.6, 0.8), (0.8, 0.9), (0.9, 1.01))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One incident's result: `hit`, `abstained`, `missed` (called healthy), `wrong`, `extra`, `silent` or `alarm`."""

    name: str
    kind: str
    result: str
    said: str
    confidence: float | None


def score(folder: Path, *, every: bool = False) -> int:
    """Print the table of a folder of recorded incidents; return 1 if any cause was wrong or any alarm false."""
    labels = json.loads((folder / "labels.json").read_text("utf-8"))
    results = [diagnose(folder / f"{name}.tar.xz", name, label) for name, label in sorted(labels.items())]
    for line in _lines(results, every=every):
        print(line)
    return 1 if any(scored.result in ("wrong", "alarm", "extra") for scored in results) else 0


def diagnose(path: Path, name: str, label: Mapping[str, object]) -> Scored:
    """Return what the tool says of one recorded incident, judged by its label."""
    return judged(explain_window(window_of(open_capture(path).scrapes())), name, label)


def judged(explanation: Explanation, name: str, label: Mapping[str, object]) -> Scored:
    """Return an explanation judged by the label of its incident."""
    loud = explanation.loud
    said = f"{explanation.verdict.value} " + ", ".join(
        f"{f.check}({f.subject.model or f.subject.ensemble})" for f in loud
    )
    return Scored(
        name=name,
        kind=str(label.get("kind", "")),
        result=_result(label, explanation),
        said=said,
        confidence=loud[0].confidence if loud else None,
    )


def _result(label: Mapping[str, object], explanation: Explanation) -> str:
    loud, wanted = explanation.loud, label["cause"]
    if wanted == "healthy":
        return "alarm" if loud else "silent"
    if not loud:
        return "missed" if explanation.verdict is Verdict.HEALTHY else "abstained"
    assert isinstance(wanted, list)
    also = label.get("also", [])
    assert isinstance(also, list)
    top = loud[0]
    if top.check not in wanted or label.get("model") not in (None, top.subject.model):
        return "wrong"
    return "extra" if {finding.check for finding in loud} - {*wanted, *also} else "hit"


def _lines(results: Sequence[Scored], *, every: bool) -> Iterator[str]:
    for scored in results:
        if every or scored.result not in ("hit", "silent"):
            yield f"{scored.name}  {scored.kind:<24}{scored.result:<11}{scored.said}"
    counts = Counter(scored.result for scored in results)
    faults = sum(counts[result] for result in ("hit", "extra", "wrong", "abstained", "missed"))
    decoys = counts["silent"] + counts["alarm"]
    right = counts["hit"] + counts["extra"]
    yield f"top-1 {right} of {faults}, " + ", ".join(
        f"{what} {counts[what]}" for what in ("abstained", "missed", "wrong")
    )
    yield f"extra findings in {counts['extra']}; false alarms {counts['alarm']} of {decoys} healthy"
    yield "confidence     incidents  right"
    for low, high in _BINS:
        inside = [s for s in results if s.confidence is not None and low <= s.confidence < high]
        right = sum(1 for s in inside if s.result in ("hit", "extra"))
        if inside:
            yield f"{low:.1f} to {min(high, 1.0):.1f}{len(inside):>14}{right:>7}"
