"""Two windows side by side as JSON, schema version 1; times are seconds and Unix seconds."""

from __future__ import annotations

from typing import Any

from diagnostics.diagnosis.diff import ChangeShare, EntryDifference, WindowDiff
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.render.diff.document import outcome
from diagnostics.render.json_head import Json, head, schema_text, window_json
from diagnostics.signals.signal import Reading
from diagnostics.tuning.changes import SettingChange


def diff_report(found: WindowDiff) -> Json:
    """Return the difference as JSON-ready data."""
    return {
        **head("difference"),
        "outcome": outcome(found),
        "before": _side(found.before),
        "after": _side(found.after),
        "entries": [_entry(entry) for entry in found.entries],
        "only_before": list(found.only_before),
        "only_after": list(found.only_after),
        "configuration": None if found.configured is None else [_change(change) for change in found.configured],
        "versions": [_change(change) for change in found.versions],
        "findings_gone": [_finding(finding) for finding in found.gone],
        "findings_new": [_finding(finding) for finding in found.new],
    }


def diff_schema() -> str:
    """Return the text of the JSON Schema that every difference meets."""
    return schema_text("difference")


def _side(side: Explanation) -> Json:
    return {**window_json(side.window), "verdict": side.verdict.value}


def _entry(entry: EntryDifference) -> Json:
    return {
        "name": entry.name,
        "mean_seconds": _both(entry.mean_before, entry.mean_after),
        "change_seconds": entry.change,
        "matters": entry.matters,
        "arrival_rate": _both(entry.rate_before, entry.rate_after),
        "load_differs": entry.load_differs,
        "explained_by": _share(entry.main) if entry.main else None,
        "shares": [_share(share) for share in entry.shares],
        "cells": [
            {
                "stage": cell.stage or None,
                "phase": cell.phase.value,
                "before_seconds": cell.before,
                "after_seconds": cell.after,
            }
            for cell in entry.cells
        ],
    }


def _both(before: Reading, after: Reading) -> dict[str, Any]:
    return {"before": before.value, "after": after.value}


def _share(share: ChangeShare) -> Json:
    return {"cause": share.cause.value, "model": share.model or None, "seconds": share.seconds, "why": share.why}


def _change(change: SettingChange) -> Json:
    return {
        "model": change.model or None,
        "setting": change.path,
        "before": change.before,
        "after": change.after,
    }


def _finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "check": finding.check,
        "subject": finding.subject.to_dict(),
        "severity": finding.severity.value,
        "summary": finding.summary,
    }
