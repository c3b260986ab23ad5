"""The explanation as JSON, schema version 1."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from diagnostics.anatomy.anatomy import Anatomy, Phase, Stage
from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Prediction, Suggestion
from diagnostics.diagnosis.advice import Advice
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Effect, EndToEnd, Finding, Unpredicted
from diagnostics.diagnosis.objective import P95, latency_of
from diagnostics.diagnosis.undecided import unseen_time
from diagnostics.evidence.ledger import LedgerLine
from diagnostics.forecast.performance import Estimate
from diagnostics.render import phrases
from diagnostics.render.json_head import Json, head, schema_text, window_json


def report(explanation: Explanation) -> Json:
    """Return the explanation as JSON-ready data; times are Unix seconds and UTC, numbers in base units."""
    return {
        **head("explanation"),
        "window": window_json(explanation.window),
        "verdict": explanation.verdict.value,
        "reason": explanation.reason,
        "layer": explanation.layer.value if explanation.layer else None,
        "changes": changes_json(explanation),
        "findings": [_finding(finding) for finding in explanation.findings],
        "symptoms": [{"text": s.text, "next_measurement": s.next_measurement} for s in explanation.symptoms],
        "anatomy": [_anatomy(explanation, item) for item in explanation.anatomy],
        "blind_spots": [
            {"what": spot.what, "why": spot.why, "fix": spot.whole_fix} for spot in explanation.blind_spots
        ],
        "checks": {
            "ran": len(catalogue()),
            "unknown": [
                {
                    "check": result.check.id,
                    "subject": result.subject.to_dict(),
                    "reason": f"{unknown.signal}: {unknown.reason.value}",
                }
                for result, unknown in explanation.unknown
            ],
        },
    }


def schema() -> str:
    """Return the text of the JSON Schema that every report meets."""
    return schema_text("explanation")


def changes_json(explanation: Explanation) -> list[Json]:
    """Return the changes of settings inside the window, in time order; each happened between `since` and `at`."""
    return [
        {
            "server": server,
            "model": change.model,
            "since": change.since,
            "at": change.at,
            "settings": [{"path": one.path, "before": one.before, "after": one.after} for one in change.settings],
            "text": text,
        }
        for (server, change), text in zip(explanation.changes, phrases.changes(explanation), strict=True)
    ]


def finding_head(finding: Finding) -> Json:
    """Return what a finding says before its numbers, wherever it is shown as JSON."""
    return {
        "id": finding.id,
        "check": finding.check,
        "title": finding.title,
        "severity": finding.severity.value,
        "confidence": finding.confidence,
        "layer": finding.layer.value,
        "subject": finding.subject.to_dict(),
        "summary": finding.summary,
        "doubt": finding.doubt or None,
        "onset": finding.onset.at if finding.onset else None,
        "ended": finding.ended.at if finding.ended else None,
    }


def _finding(finding: Finding) -> Json:
    suggestion = finding.suggestion
    return finding_head(finding) | {
        "onset_change": str(finding.onset.change) if finding.onset and finding.onset.change else None,
        "impact": {
            "mean_seconds": finding.impact.mean_seconds,
            "seconds_per_request": finding.impact.seconds_per_request,
            "share_of_latency": finding.impact.share_of_latency,
            "share_of_requests_failed": finding.impact.share_of_requests_failed,
        },
        "evidence": [_line(line) for line in finding.evidence],
        "caused_by": finding.caused_by,
        "suggestion": _suggestion(suggestion, finding.advice, finding.effect) if suggestion else None,
        "runbook": finding.check,
    }


def _line(line: LedgerLine) -> Json:
    return {
        "signal": line.signal,
        "value": line.reading.value,
        "low": _finite(line.reading.low),
        "high": _finite(line.reading.high),
        "unit": line.reading.unit.value,
        "limit": line.limit,
        "comparison": line.sign,
        "supports": line.met,
        "source": line.reading.source,
        "estimated": line.reading.estimated,
        "missing": line.reading.missing.value if line.reading.missing else None,
    }


def _finite(value: float | None) -> float | None:
    """JSON has no infinity: an end that is not bounded is null."""
    return value if value is not None and isfinite(value) else None


def _suggestion(suggestion: Suggestion, advice: Advice | None, effect: Effect | None) -> Json:
    made = advice.patch if advice else None
    return {
        "kind": suggestion.remedy.value,
        "text": suggestion.text,
        "blast_radius": advice.blast_radius.value if advice and advice.blast_radius else None,
        "patch": made.text if made else None,
        "patch_base": made.base if made else None,
        "note": advice.note if advice and advice.note else None,
        "touches": advice.steps.touches if advice and advice.steps else None,
        "apply": advice.steps.apply or None if advice and advice.steps else None,
        "undo": advice.steps.undo or None if advice and advice.steps else None,
        "prediction": _prediction(suggestion.prediction, effect) if suggestion.prediction else None,
        "unpredicted": effect.because if isinstance(effect, Unpredicted) else None,
    }


def _prediction(prediction: Prediction, effect: Effect | None) -> Json:
    return {
        "phase": prediction.phase.value,
        "model": prediction.model or None,
        "now_seconds": prediction.now_seconds,
        "predicted_seconds": prediction.predicted_seconds,
        "low_seconds": prediction.low_seconds,
        "high_seconds": prediction.high_seconds,
        "estimated": True,
        "assumptions": list(prediction.assumptions),
        "unless": prediction.unless or None,
        "end_to_end": _end_to_end(effect) if isinstance(effect, EndToEnd) else None,
    }


def _end_to_end(effect: EndToEnd) -> Json:
    """Return what is forecast of the entry's requests; `p95_seconds` is null without traces."""
    return {
        "entry": effect.entry,
        "mean_seconds": _change(effect.now_mean, effect.mean),
        "p95_seconds": _change(effect.now_p95, effect.p95) if effect.now_p95 is not None and effect.p95 else None,
        "saving_seconds": _interval(effect.saving) if effect.saving else None,
        "simulated": effect.simulated,
        "assumptions": [*effect.assumptions, *([effect.doubt] if effect.doubt else [])],
    }


def _change(now: float, predicted: Estimate) -> Json:
    return {"now": now, "predicted": predicted.value, "interval90": [predicted.low, predicted.high]}


def _interval(one: Estimate) -> Json:
    return {"value": one.value, "interval90": [one.low, one.high]}


def _anatomy(explanation: Explanation, item: Anatomy) -> Json:
    return {
        "server": item.server,
        "ensemble": item.ensemble,
        "requests": item.requests,
        "mean_seconds": item.mean_seconds,
        "mean_is_lower_bound": unseen_time(explanation.evidence, item) is not None,
        "stages": [{"model": stage.model, **_cells(stage), **_seen_in_traces(stage)} for stage in item.stages],
        "unattributed_seconds": item.unattributed_seconds,
        "source": item.source,
        "traced_requests": item.traced,
        "p50_seconds": item.spread.p50 if item.spread else None,
        "p95_seconds": item.spread.p95 if item.spread else None,
        "latency_p95": _p95(explanation, item),
    }


def _p95(explanation: Explanation, item: Anatomy) -> Json | None:
    """Return the percentile that the first line shows of an entry, whatever measured it; null where nothing did."""
    measured = latency_of(explanation.evidence, item, P95)
    seconds = _finite(measured.value)
    return (
        {"seconds": seconds, "source": measured.source, "over_seconds": measured.span} if seconds is not None else None
    )


def _seen_in_traces(stage: Stage) -> Json:
    """What a stage is on the critical path, and what only traces show: medians and tails by phase."""
    return {
        "critical_path_share": stage.path_share,
        "gap_before_seconds": stage.gap_seconds,
        "saves_at_most_seconds": _finite(stage.most_seconds),
        "p50": {f"{phase.value}_seconds": spread.p50 for phase, spread in stage.spread.items()},
        "p95": {f"{phase.value}_seconds": spread.p95 for phase, spread in stage.spread.items()},
    }


def _cells(stage: Stage) -> Mapping[str, float]:
    phases = (Phase.QUEUE, Phase.INPUT, Phase.COMPUTE, Phase.OUTPUT, Phase.ENGINE)
    return {f"{phase.value}_seconds": stage.cells.get(phase, 0.0) for phase in phases}
