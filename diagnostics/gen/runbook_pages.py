"""Runbooks, as Markdown: a page per check, and a page per alert on a symptom or on the watching itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import CheckCase, Expected
from diagnostics.gen.alert import Alert
from diagnostics.gen.markdown import code, table
from diagnostics.gen.rule_groups import SYMPTOMS
from diagnostics.gen.runbooks import RUNBOOKS
from diagnostics.gen.symptom import Runbook, SymptomAlert
from diagnostics.units import Limit

_CASES: Mapping[Expected, str] = {
    Expected.FIRES: "It says so",
    Expected.QUIET: "It does not say so",
    Expected.UNKNOWN: "It cannot tell",
}


def check_page(found: RegisteredCheck, alert: Alert) -> str:
    """Return the runbook of a check: its docstring, its limits, its alert and its cases."""
    parts = [f"# {found.id}", f"{found.title}. Layer: {found.check.layer.value}."]
    parts += [f"## {heading}\n{text}" for heading, text in found.sections().items()]
    parts += ["## Limits", _limits(found.check.limits), *_alert(alert)]
    if found.check.symptom:
        alert_of = SYMPTOMS[found.check.symptom].alert
        parts.append(
            f"Where Prometheus scrapes Triton alone, [{alert_of.name}]({alert_of.id}.md) points here without deciding."
        )
    parts += ["## Says and does not say", *_cases(found.cases)]
    return "\n\n".join(parts) + "\n"


def symptom_page(found: SymptomAlert, checks: Iterable[RegisteredCheck]) -> str:
    """Return the runbook of a symptom, which leads to the checks among `checks` that may be its cause."""
    causes = [f"- [{one.id}]({one.id}.md): {one.title}." for one in checks if one.check.symptom == found.alert.id]
    explain = "Ask for the cause: `diag explain HOST:8000`. It decides between these, or names another:"
    return _page(found.alert, found.runbook, "\n".join([explain, "", *causes]))


def meta_page(alert: Alert) -> str:
    """Return the runbook of an alert on the watching itself."""
    return _page(alert, RUNBOOKS[alert.id], "")


def plain_page(identifier: str, page: Runbook) -> str:
    """Return a runbook of an alert whose expression depends on what it is generated for."""
    return "\n\n".join(_parts(identifier, page, "")) + "\n"


def _page(alert: Alert, page: Runbook, causes: str) -> str:
    return "\n\n".join([*_parts(alert.id, page, causes), *_alert(alert)]) + "\n"


def _parts(identifier: str, page: Runbook, causes: str) -> list[str]:
    parts = [f"# {identifier}", "## Meaning", page.meaning, "## Impact", page.impact]
    parts += ["## Diagnosis", *([causes] if causes else []), _steps(page.diagnosis)]
    return [*parts, "## Mitigation", _steps(page.mitigation)]


def _steps(steps: Iterable[str]) -> str:
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _limits(limits: Mapping[str, Limit]) -> str:
    if not limits:
        return "It compares with no number."
    rows = ((name, limit.unit.show(limit.value), limit.unit.value, limit.because) for name, limit in limits.items())
    return table(("reading", "limit", "unit", "because"), rows)


def _alert(alert: Alert) -> Iterator[str]:
    yield "## Alert"
    yield f"`{alert.name}` (severity `{alert.severity}`) fires {_when(alert)}:"
    yield code(alert.expr)


def _when(alert: Alert) -> str:
    return f"when this has held for {alert.hold_minutes} minutes" if alert.hold_minutes else "as soon as this holds"


def _cases(cases: Iterable[CheckCase]) -> Iterator[str]:
    every = tuple(cases)
    for expected, heading in _CASES.items():
        titles = [f"- It {case.title}." for case in every if case.expect is expected]
        if titles:
            yield f"### {heading}"
            yield "\n".join(titles)
