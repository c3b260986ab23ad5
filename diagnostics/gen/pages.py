"""The pages that are generated: checks, runbooks and lint rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.checks.check import CheckCase, Expected
from diagnostics.gen.alert import Alert
from diagnostics.gen.rule_groups import SYMPTOMS
from diagnostics.gen.symptoms import Runbook, SymptomAlert
from diagnostics.lint.catalogue import RegisteredRule
from diagnostics.lint.rule import LintTopic, RuleCase
from diagnostics.units import Limit


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table; `|` in cells is escaped."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(_cell(text) for text in line)} |" for line in lines)


def code(text: str) -> str:
    """Return a block of PromQL."""
    return f"```promql\n{text}\n```"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


FOLDER = "lint"
_HEAD = """\
`diag lint REPOSITORY…` asks these of a model repository's files, without a server or a GPU. A problem is accepted where
it stands by `# diag: ignore[rule-id] reason`, and for paths or altogether in `.diag-lint.toml`.

- `error`: the model does not load, or surely fails.
- `warning`: likely slow or risky.
- `info`: worth knowing."""


def lint_pages(rules: Mapping[str, RegisteredRule]) -> dict[str, str]:
    """Return the table and a page per rule, by path below the output folder."""
    pages = {f"{FOLDER}/{found.id}.md": _page(found) for found in rules.values()}
    return {f"{FOLDER}/README.md": _table(rules.values()), **pages}


def _table(rules: Iterable[RegisteredRule]) -> str:
    parts = ["# Rules of diag lint", _HEAD]
    every = tuple(rules)
    for question in LintTopic:
        rows = [_row(found) for found in every if found.rule.question is question]
        if rows:
            parts += [f"## {question.value}", table(("rule", "severity", "about", "what it tells"), rows)]
    return _written(parts)


def _row(found: RegisteredRule) -> tuple[str, str, str, str]:
    rule = found.rule
    return f"[{found.id}]({found.id}.md)", rule.severity.value, rule.scope.value, found.title


def _page(found: RegisteredRule) -> str:
    rule = found.rule
    parts = [f"# {found.id}", f"{found.title}.", f"Severity: {rule.severity.value}. {rule.question.value}"]
    parts += [*_sections(found), *(["## Limits", _limits("value", rule.limits)] if rule.limits else [])]
    return _written([*parts, "## Says and does not say", _titles(found.cases)])


def _written(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def _sections(found: RegisteredRule | RegisteredCheck) -> Iterator[str]:
    return (f"## {heading}\n{text}" for heading, text in found.sections().items())


def _limits(what: str, limits: Mapping[str, Limit]) -> str:
    rows = ((name, limit.unit.show(limit.value), limit.unit.value, limit.because) for name, limit in limits.items())
    return table((what, "limit", "unit", "because"), rows)


def _titles(cases: Iterable[RuleCase | CheckCase]) -> str:
    return "\n".join(f"- It {case.title}." for case in cases)


RUNBOOKS: Mapping[str, Runbook] = {
    "check-undecided": Runbook(
        meaning="What this check needs is switched off, closed or not exported, for an hour by now.",
        impact="Its cause would go unnamed.",
        diagnosis=("Run `diag explain` on a server and read what is unknown and its list of blind spots.",),
        mitigation=("Switch on what it names, or silence this alert for a check that cannot apply to your servers.",),
    ),
    "target-down": Runbook(
        meaning="The diagnosis service cannot read this server's counters.",
        impact="No diagnosis of this server is possible, and its findings have ended. That they are gone does not mean "
        "that it is well.",
        diagnosis=(
            "Run `diag explain` on the server from where the service runs: it names the endpoint that fails and why.",
        ),
        mitigation=("Is the server itself down? Then its own alerts lead; this one ends with them.",),
    ),
    "targets-absent": Runbook(
        meaning="Prometheus has no sample of the diagnosis service: it is down, is not scraped, or watches no server.",
        impact="None of the alerts on causes can fire meanwhile.",
        diagnosis=("Is the service running, and is its job among Prometheus's targets?",),
        mitigation=("Does its own page list the servers that it should watch? If not, add them to its settings.",),
    ),
    "server-down": Runbook(
        meaning="Prometheus cannot scrape a target that exported Triton's metrics before.",
        impact="The server may be down; in any case nothing is seen of it.",
        diagnosis=(
            "Does it serve? `curl -i HOST:8000/v2/health/ready`; `curl HOST:8002/metrics` from where Prometheus is.",
        ),
        mitigation=("Restart it, or take it out of the balancer until it answers.",),
    ),
    "servers-absent": Runbook(
        meaning="Among Prometheus's targets none exports Triton's metrics.",
        impact="None of the alerts on symptoms can fire, whatever happens.",
        diagnosis=(
            "Open Prometheus's page of targets: is there a job for Triton's port 8002, and does its selector match?",
            "Is `--allow-metrics` of the servers on?",
        ),
        mitigation=("Mend the job; where there is no Triton on purpose, leave these rules out.",),
    ),
    "model-vanished": Runbook(
        meaning="A model that the server had an hour ago is gone: it was unloaded, or a load failed.",
        impact="Requests to it, and ensembles that need it, fail at once.",
        diagnosis=("Ask the server why: `curl -X POST HOST:8000/v2/repository/index` gives each model's reason.",),
        mitigation=(
            "Load it again, or roll the repository back. After a wanted unload the alert ends within the hour.",
        ),
    ),
    "not-diagnosed": Runbook(
        meaning="Prometheus scrapes this Triton, and the diagnosis service does not watch it under the same name.",
        impact="Its symptoms raise alerts, but nothing names their cause.",
        diagnosis=("Compare `instance` here with the names of the servers in the service's settings.",),
        mitigation=("Add the server to the service's settings, under the name that Prometheus gives it.",),
    ),
    "without-statistics": Runbook(
        meaning="The server was started with `--metrics-config counter_latencies=false`.",
        impact="Its durations are missing and its other counters stand still, so every rule is blind to it.",
        diagnosis=("Look at the server's command line.",),
        mitigation=("Start it without that option; the counters cost next to nothing.",),
    ),
}


_CASES: Mapping[Expected, str] = {
    Expected.FIRES: "It says so",
    Expected.QUIET: "It does not say so",
    Expected.UNKNOWN: "It cannot tell",
}


def check_page(found: RegisteredCheck, alert: Alert) -> str:
    """Return the runbook of a check: its docstring, its limits, its alert and its cases."""
    limits = found.check.limits
    parts = [f"# {found.id}", f"{found.title}. Layer: {found.check.layer.value}.", *_sections(found)]
    parts += ["## Limits", _limits("reading", limits) if limits else "It compares with no number.", *_alert(alert)]
    if found.check.symptom:
        alert_of = SYMPTOMS[found.check.symptom].alert
        parts.append(
            f"Where Prometheus scrapes Triton alone, [{alert_of.name}]({alert_of.id}.md) points here without deciding."
        )
    return _written([*parts, "## Says and does not say", *_case_rows(found.cases)])


def symptom_page(found: SymptomAlert, checks: Iterable[RegisteredCheck]) -> str:
    """Return the runbook of a symptom, which leads to the checks among `checks` that may be its cause."""
    causes = [f"- [{one.id}]({one.id}.md): {one.title}." for one in checks if one.check.symptom == found.alert.id]
    explain = "Ask for the cause: `diag explain HOST:8000`. It decides between these, or names another:"
    return _check_runbook(found.alert, found.runbook, "\n".join([explain, "", *causes]))


def meta_page(alert: Alert) -> str:
    """Return the runbook of an alert on the watching itself."""
    return _check_runbook(alert, RUNBOOKS[alert.id], "")


def plain_page(identifier: str, page: Runbook) -> str:
    """Return a runbook of an alert whose expression depends on what it is generated for."""
    return _written(_parts(identifier, page, ""))


def _check_runbook(alert: Alert, page: Runbook, causes: str) -> str:
    return _written([*_parts(alert.id, page, causes), *_alert(alert)])


def _parts(identifier: str, page: Runbook, causes: str) -> list[str]:
    parts = [f"# {identifier}", "## Meaning", page.meaning, "## Impact", page.impact]
    parts += ["## Diagnosis", *([causes] if causes else []), _steps(page.diagnosis)]
    return [*parts, "## Mitigation", _steps(page.mitigation)]


def _steps(steps: Iterable[str]) -> str:
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


def _alert(alert: Alert) -> Iterator[str]:
    yield "## Alert"
    yield f"`{alert.name}` (severity `{alert.severity}`) fires {_when(alert)}:"
    yield code(alert.expr)


def _when(alert: Alert) -> str:
    return f"when this has held for {alert.hold_minutes} minutes" if alert.hold_minutes else "as soon as this holds"


def _case_rows(cases: Iterable[CheckCase]) -> Iterator[str]:
    every = tuple(cases)
    for expected, heading in _CASES.items():
        if chosen := [case for case in every if case.expect is expected]:
            yield from (f"### {heading}", _titles(chosen))
