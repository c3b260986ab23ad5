"""One alert per check. It fires on what the service found, and so needs no threshold of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import Layer, Severity
from diagnostics.gen.alert import Alert, Situation, label, series
from diagnostics.gen.rule_tests import fires_and_resolves
from diagnostics.signals.subject import Scope

FINDING = "diag_finding"
HOLD_MINUTES = 2
# No real id, so that a new check does not change the tests of the others.
_OTHER = "another-check"

_EXAMPLES: Mapping[Scope, Mapping[str, str]] = {
    Scope.SERVER: {"server": "triton-0:8002"},
    Scope.MODEL: {"server": "triton-0:8002", "model": "safety", "version": "1", "ensemble": "chat"},
    Scope.ENSEMBLE: {"server": "triton-0:8002", "ensemble": "chat"},
    Scope.GPU: {"server": "triton-0:8002", "gpu": "GPU-1"},
    Scope.ENTRY: {"server": "triton-0:8002", "ensemble": "chat"},
    Scope.LISTED: {"server": "triton-0:8002", "model": "safety"},
}
_SUBJECTS: Mapping[Scope, str] = {
    Scope.SERVER: label("server"),
    Scope.MODEL: f"{label('model')} on {label('server')}",
    Scope.ENSEMBLE: f"{label('ensemble')} on {label('server')}",
    Scope.GPU: f"GPU {label('gpu')} of {label('server')}",
    Scope.ENTRY: f"{label('ensemble')}{label('model')} on {label('server')}",
    Scope.LISTED: f"{label('model')} on {label('server')}",
}


def finding_alerts(checks: Iterable[RegisteredCheck]) -> tuple[Alert, ...]:
    """Return the alerts of `checks`, in their order."""
    return tuple(_alert(check) for check in checks)


def _alert(found: RegisteredCheck) -> Alert:
    scope = found.check.scope
    labels = {"check": found.id, **_EXAMPLES[scope]}
    return Alert(
        id=found.id,
        group=found.check.layer.value,
        expr=f"{series(FINDING, {'check': found.id})} == 1",
        hold_minutes=HOLD_MINUTES,
        severity=severity(found).value,
        summary=f"{_SUBJECTS[scope]}: {_uncapitalized(found.title)}",
        description=f"{_paragraph(found.sections()['Means'])} Evidence and remedy: diag explain {label('server')}",
        situations=(_situation(labels),),
    )


def _situation(labels: Mapping[str, str]) -> Situation:
    """Return the series of a finding that ends, beside one too small to act on and one of another check."""
    small, other = {**labels, "server": "triton-1:8002"}, {**labels, "check": _OTHER}
    return fires_and_resolves(
        labels,
        {
            series(FINDING, labels): ("1", "stale"),
            series(FINDING, small): ("0", "0"),
            series(FINDING, other): ("1", "1"),
        },
        hold=HOLD_MINUTES,
    )


def severity(found: RegisteredCheck) -> Severity:
    """Return its alert's severity: causes are tickets, never pages; what only weakens a diagnosis is for information.

    Pages belong to objectives that burn, whatever the cause.
    """
    quiet = found.check.severity is Severity.INFO or found.check.layer is Layer.TELEMETRY
    return Severity.INFO if quiet else Severity.WARNING


def _paragraph(text: str) -> str:
    return " ".join(text.split("\n\n", 1)[0].split())


def _uncapitalized(title: str) -> str:
    """Return the title as the rest of a sentence; abbreviations such as `GPU` keep their capitals."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]
