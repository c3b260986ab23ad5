"""`--fail-on`: what makes a command exit with 1, wherever the answer came from."""

from __future__ import annotations

from collections.abc import Iterable

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Verdict

FAIL_ON = ("critical", "warning", "unknown", "never")


def fails(fail_on: str, verdict: str, severities: Iterable[str]) -> bool:
    """Return whether a verdict, with the severities of its findings, is what `fail_on` (of FAIL_ON) names."""
    match fail_on:
        case "critical":
            return Severity.CRITICAL in severities
        case "warning":
            return verdict == Verdict.DEGRADED
        case "unknown":
            return verdict in (Verdict.DEGRADED, Verdict.NO_CLEAR_CAUSE, Verdict.INSUFFICIENT_DATA)
        case _:
            return False
