"""Runbooks and their table of contents, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diagnostics.checks.catalogue import Registered
from diagnostics.checks.check import Case, Expected
from diagnostics.evidence.ledger import Limit
from diagnostics.gen.alert import Alert
from diagnostics.gen.meta_alerts import META_REMEDIES

_CASES: Mapping[Expected, str] = {
    Expected.FIRES: "It says so",
    Expected.QUIET: "It does not say so",
    Expected.UNKNOWN: "It cannot tell",
}


def check_page(found: Registered, alert: Alert) -> str:
    """Return the runbook of a check: its docstring, its limits, its alert and its cases."""
    parts = [f"# {found.id}", f"{found.title}. Layer: {found.check.layer.value}."]
    parts += [f"## {heading}\n{text}" for heading, text in found.sections().items()]
    parts += ["## Limits", _limits(found.check.limits), *_alert(alert)]
    if found.check.symptom:
        parts += [
            "Where only Triton's own metrics are at hand, this points here without deciding:",
            _code(found.check.symptom),
        ]
    parts += ["## Says and does not say", *_cases(found.cases)]
    return "\n\n".join(parts) + "\n"


def meta_page(alert: Alert) -> str:
    """Return the runbook of an alert on the watching itself."""
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(META_REMEDIES[alert.id], 1))
    return "\n\n".join([f"# {alert.id}", "## Means", _plain(alert.description), "## Do", steps, *_alert(alert)]) + "\n"


def overview(checks: Iterable[Registered], alerts: Mapping[str, Alert], meta: Iterable[Alert]) -> str:
    """Return the page that lists every check and every alert with a link to its runbook."""
    checks_table = _table(
        ("check", "layer", "what it means", "alert", "severity"),
        (
            (_link(found.id), found.check.layer.value, found.title, alerts[found.id].name, alerts[found.id].severity)
            for found in checks
        ),
    )
    meta_table = _table(
        ("alert", "severity", "expression", "runbook"),
        ((alert.name, alert.severity, f"`{alert.expr}`", _link(alert.id)) for alert in meta),
    )
    return "\n\n".join(
        [
            "# Checks, alerts and runbooks",
            "`alerts/` holds Prometheus rules on what the diagnosis service exports, `runbooks/` a page for each, "
            "`tests/` their unit tests for `promtool test rules`, `alertmanager/` an example of Alertmanager's "
            "configuration: a notification per server, and a cause inhibits its consequences.",
            "## Checks",
            "An alert fires once `diag_finding` of its check has been 1 for as long as its rule says.",
            checks_table,
            "## The watching itself",
            f"{meta_table}\n",
        ]
    )


def _limits(limits: Mapping[str, Limit]) -> str:
    if not limits:
        return "It compares with no number."
    rows = ((name, limit.unit.show(limit.value), limit.unit.value, limit.because) for name, limit in limits.items())
    return _table(("reading", "limit", "unit", "because"), rows)


def _alert(alert: Alert) -> Iterator[str]:
    yield "## Alert"
    yield f"`{alert.name}` (severity `{alert.severity}`) fires when this has held for {alert.hold_minutes} minutes:"
    yield _code(alert.expr)


def _cases(cases: Iterable[Case]) -> Iterator[str]:
    every = tuple(cases)
    for expected, heading in _CASES.items():
        titles = [f"- It {case.title}." for case in every if case.expect is expected]
        if titles:
            yield f"### {heading}"
            yield "\n".join(titles)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    return f"```promql\n{text}\n```"


def _link(identifier: str) -> str:
    return f"[{identifier}](runbooks/{identifier}.md)"


def _plain(description: str) -> str:
    return description.replace("{{ $labels.server }}", "SERVER")
