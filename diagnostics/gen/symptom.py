"""A symptom: an alert on what Prometheus alone can see. It says that something hurts, never why."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.checks.check import Severity
from diagnostics.gen.alert import Alert, label
from diagnostics.gen.example_series import Example, situations

PREFIX = "Triton"
GROUP = "symptoms"
# Tells alerts on symptoms from those on causes, which inhibit them.
KIND = "kind"
SYMPTOM = "symptom"
_WHY = f"Why, and what to change: diag explain {label('instance')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """What a page says besides the alert itself.

    Attributes:
        meaning, impact: a paragraph each.
        diagnosis, mitigation: steps, in order.

    """

    meaning: str
    impact: str
    diagnosis: tuple[str, ...]
    mitigation: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomAlert:
    """An alert on a symptom with its runbook; which checks it points to, the checks say themselves."""

    alert: Alert
    runbook: Runbook


def symptom(
    identifier: str,
    *,
    expr: str,
    hold: int,
    severity: Severity,
    summary: str,
    runbook: Runbook,
    example: Example,
) -> SymptomAlert:
    """Return a symptom; its alert carries the server's name as alerts on causes do, so that these can inhibit it."""
    alert = Alert(
        id=identifier,
        group=GROUP,
        prefix=PREFIX,
        expr=expr,
        hold_minutes=hold,
        severity=severity.value,
        summary=summary,
        description=f"{runbook.meaning} {_WHY}",
        labels={KIND: SYMPTOM, "server": label("instance")},
        situations=situations(example, hold),
    )
    return SymptomAlert(alert=alert, runbook=runbook)


def all_of(*expressions: str) -> str:
    """Return the conjunction of conditions on the same series."""
    return " and ".join(expressions)
