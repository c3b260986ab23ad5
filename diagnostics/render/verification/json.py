"""Verifications as JSON, schema version 1; times are seconds and Unix seconds."""

from __future__ import annotations

from math import isfinite

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.forecast.verify import Judgement, Measure, Verification, difference
from diagnostics.render.forecast.json import estimate_json
from diagnostics.render.json_head import Json, head, schema_text, window_json
from diagnostics.tuning.changes import SettingChange


def verify_report(found: Verification, windows: tuple[WindowFacts, WindowFacts]) -> Json:
    """Return the verification as JSON-ready data."""
    before, after = windows
    block = found.block_seconds
    return {
        **head("verification"),
        "entry": found.entry,
        **_judgement(found.judgement),
        "before": window_json(before),
        "after": window_json(after),
        "configuration": [_change(one) for one in found.changes],
        "unpredicted": [_change(one) for one in found.unpredicted],
        "arrival_rate": {"before": found.rates[0].value, "after": found.rates[1].value},
        "load_differs": found.load_differs,
        "block_seconds": block if block is not None and isfinite(block) else None,
        "measures": [_measure(one) for one in found.measures],
        "assumptions": list(found.assumptions),
    }


def verify_schema() -> str:
    """Return the text of the JSON Schema that every verification meets."""
    return schema_text("verification")


def _judgement(one: Judgement) -> Json:
    return {"verdict": one.verdict.value, "reason": one.reason, "seconds_needed": one.seconds_needed}


def _change(one: SettingChange) -> Json:
    return {"model": one.model, "setting": one.path, "before": one.before, "after": one.after}


def _measure(one: Measure) -> Json:
    off = difference(one.after, one.before) if one.before is not None else None
    ends = [end if isfinite(end) else None for end in (off.low, off.high)] if off is not None else None
    return {
        "statistic": one.statistic,
        "before_seconds": estimate_json(one.before),
        "after_seconds": estimate_json(one.after),
        "predicted_seconds": estimate_json(one.predicted),
        "unchanged_seconds": estimate_json(one.unchanged),
        "change_seconds": {"value": off.value if off is not None else None, "interval90": ends},
        **_judgement(one.judgement),
    }
