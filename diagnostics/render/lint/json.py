"""What a lint found as JSON, schema version 1. Keys are added within a version, never renamed."""

from __future__ import annotations

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.run import LintReport
from diagnostics.render.document import Json, head, schema_text
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange


def lint_report(report: LintReport) -> Json:
    """Return the report as JSON-ready data; lines and columns count from 1."""
    return {
        **head("lint"),
        "problems": [problem_json(problem) for problem in report.problems],
        "waived": [
            {**problem_json(one.problem), "reason": one.reason, "by": "comment" if one.in_source else "settings"}
            for one in report.waived
        ],
        "counts": {
            **{severity.value: sum(one.severity is severity for one in report.problems) for severity in LintSeverity},
            "waived": len(report.waived),
            "models": report.models,
            "unreadable_models": report.unread,
            "deployment_files": report.files,
        },
        "rules": len(report.rules),
        "failures": list(report.failures),
    }


def lint_schema() -> str:
    """Return the text of the JSON Schema that every report meets."""
    return schema_text("lint")


def problem_json(problem: LintProblem) -> Json:
    """Return one problem."""
    return {
        "rule": problem.rule,
        "severity": problem.severity.value,
        "path": problem.place.path,
        "line": problem.place.line,
        "column": problem.place.column,
        "message": problem.message,
        "help": problem.help or None,
        "fix": _fix(problem.fix) if problem.fix else None,
    }


def _fix(change: ConfigChange) -> Json:
    return {"model": change.model, "settings": [_setting(setting) for setting in change.settings]}


def _setting(setting: Setting) -> Json:
    value = setting.value
    if isinstance(value, WarmupChange):
        return {"path": setting.path, "value": {"batch_sizes": list(value.batch_sizes)}}
    return {"path": setting.path, "value": list(value) if isinstance(value, tuple) else value}
