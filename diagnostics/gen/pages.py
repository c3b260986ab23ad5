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
`diag lint REPOSITORY…` checks the files of a model repository with these rules, without a server or a GPU. To accept a
problem, write `# diag: ignore[rule-id] reason` on its line. `.diag-lint.toml` accepts problems by path, or everywhere.

- `error`: the model does not load, or certainly fails.
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
            parts += [f"## {question.value}", table(("rule", "severity", "about", "what it reports"), rows)]
    return _written(parts)


def _row(found: RegisteredRule) -> tuple[str, str, str, str]:
    rule = found.rule
    return f"[{found.id}]({found.id}.md)", rule.severity.value, rule.scope.value, found.title


def _page(found: RegisteredRule) -> str:
    rule = found.rule
    parts = [f"# {found.id}", f"{found.title}.", f"Severity: {rule.severity.value}. {rule.question.value}"]
    parts += [*_sections(found), *(["## Limits", _limits("value", rule.limits)] if rule.limits else [])]
    return _written([*parts, "## When it fires", _titles(found.cases)])


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
        meaning="For an hour, data that this check needs has been off, closed or not exported.",
        impact="If this is the cause of latency, nothing reports it.",
        diagnosis=("Run `diag explain` on a server. Read the unknown checks and the blind spots.",),
        mitigation=("Switch on the data it names. If the check cannot apply to your servers, silence this alert.",),
    ),
    "target-down": Runbook(
        meaning="The diagnosis service cannot read this server's counters.",
        impact="This server cannot be diagnosed. Alerts of Prometheus on its findings have ended, and its open "
        "incidents stay open until it can be read again.",
        diagnosis=(
            "Run `diag explain` on the server, from the service's machine: it names the failing endpoint and why.",
        ),
        mitigation=("If the server itself is down, handle its own alerts first. This one ends with them.",),
    ),
    "evaluation-late": Runbook(
        meaning="The diagnosis service reads this deployment, but makes no verdict in time. Its processors are "
        "overloaded, or evaluation fails.",
        impact="Incidents neither open nor end. Page, API and `diag watch` show the last verdict, with its age.",
        diagnosis=(
            "Read the service's log: `diag.evaluation.late` says how long data waits, and errors name the deployment.",
            "Check the load of the service's machine: `uptime`, and `diag_evaluation_seconds` for what verdicts cost.",
        ),
        mitigation=(
            "Give the service a processor of its own, or raise `collect.interval`.",
            "Split a large fleet among several services: `fleet.workers`.",
        ),
    ),
    "service-fault": Runbook(
        meaning="A part of the diagnosis service has failed for a quarter of an hour: `deliver`, `discovery`, `fleet`, "
        "`history` or `reload`.",
        impact="Verdicts are still made. What the part does is missing: messages to receivers, found servers, the "
        "fleet's page, the history, or new settings. Messages and writes wait, and are made up for.",
        diagnosis=(
            "Open the service's page, or `curl -s http://HOST:9177/api/v1/state | jq .faults`. Each fault says what "
            "fails, why, and since when.",
            "Search the service's log for the same words.",
        ),
        mitigation=(
            "`deliver`: check the receiver's address, credentials and network path.",
            "`discovery`: check the source's address and rights. If servers are left out, raise "
            "`discovery.max_servers`.",
            "`fleet`: check the database. If two processes have one `fleet.worker`, stop one of them.",
            "`history`: free space on the disk, or make the database reachable.",
            "`reload`: correct the settings and reload: `kill -HUP`. Until then, the former settings apply.",
        ),
    ),
    "targets-absent": Runbook(
        meaning="Prometheus has no sample of the diagnosis service. It is down, not scraped, or watches no server.",
        impact="Until then, no alert on a cause can fire.",
        diagnosis=("Check that the service runs, and that its job is among Prometheus's targets.",),
        mitigation=("Open the service's page. If servers are missing, add them to its settings.",),
    ),
    "server-down": Runbook(
        meaning="Prometheus cannot scrape a target that exported Triton's metrics before.",
        impact="The server may be down. In any case, nothing monitors it.",
        diagnosis=(
            "Check the server: `curl -i HOST:8000/v2/health/ready`. From Prometheus's machine: `curl "
            "HOST:8002/metrics`.",
        ),
        mitigation=("Restart it, or take it out of the balancer until it answers.",),
    ),
    "servers-absent": Runbook(
        meaning="No target of Prometheus exports Triton's metrics.",
        impact="No alert on a symptom can fire.",
        diagnosis=(
            "Open Prometheus's page of targets. Check for a job with Triton's port 8002 and a matching selector.",
            "Check that the servers run with `--allow-metrics=true`, the default.",
        ),
        mitigation=("Correct the job. If there is no Triton on purpose, remove these rules.",),
    ),
    "model-vanished": Runbook(
        meaning="A model that the server had an hour ago is gone. It was unloaded, or a load failed.",
        impact="Requests to it, and ensembles that need it, fail at once.",
        diagnosis=("Read each model's reason: `curl -X POST HOST:8000/v2/repository/index`.",),
        mitigation=(
            "Load it again, or roll back the repository. After an intended unload, the alert ends within an hour.",
        ),
    ),
    "not-diagnosed": Runbook(
        meaning="Prometheus scrapes this Triton, but the diagnosis service does not watch it under the same name.",
        impact="Its symptoms raise alerts, but nothing reports their cause.",
        diagnosis=("Compare `instance` in this alert with the server names in the service's settings.",),
        mitigation=("Add the server to the service's settings, with the name that Prometheus uses.",),
    ),
    "without-statistics": Runbook(
        meaning="The server was started with `--metrics-config counter_latencies=false`.",
        impact="Its durations are missing and its other counters stand still, so no rule can fire for it.",
        diagnosis=("Check the server's command line for that option.",),
        mitigation=("Start it without that option. The counters cost next to nothing.",),
    ),
}


_CASES: Mapping[Expected, str] = {
    Expected.FIRES: "It fires",
    Expected.QUIET: "It stays quiet",
    Expected.UNKNOWN: "It is undecided",
}


def check_page(found: RegisteredCheck, alert: Alert) -> str:
    """Return the runbook of a check: its docstring, its limits, its alert and its cases."""
    limits = found.check.limits
    parts = [f"# {found.id}", f"{found.title}. Layer: {found.check.layer.value}.", *_sections(found)]
    parts += ["## Limits", _limits("reading", limits) if limits else "This check has no limits.", *_alert(alert)]
    if found.check.symptom:
        alert_of = SYMPTOMS[found.check.symptom].alert
        parts.append(
            f"If Prometheus scrapes only Triton, [{alert_of.name}]({alert_of.id}.md) points here without a decision."
        )
    return _written([*parts, "## When it fires", *_case_rows(found.cases)])


def symptom_page(found: SymptomAlert, checks: Iterable[RegisteredCheck]) -> str:
    """Return the runbook of a symptom, which leads to the checks among `checks` that may be its cause."""
    causes = [f"- [{one.id}]({one.id}.md): {one.title}." for one in checks if one.check.symptom == found.alert.id]
    explain = "Find the cause with `diag explain HOST:8000`. It is one of these, or another:"
    return _check_runbook(found.alert, found.runbook, "\n".join([explain, "", *causes]))


def meta_page(alert: Alert) -> str:
    """Return the runbook of an alert on the monitoring itself."""
    return _check_runbook(alert, RUNBOOKS[alert.id], "")


def plain_page(identifier: str, page: Runbook) -> str:
    """Return a runbook of an alert whose expression depends on what it is generated for."""
    return _written(_parts(identifier, page, ""))


def _check_runbook(alert: Alert, page: Runbook, causes: str) -> str:
    return _written([*_parts(alert.id, page, causes), *_alert(alert)])


def _parts(identifier: str, page: Runbook, causes: str) -> Iterator[str]:
    yield f"# {identifier}"
    for heading, text in page.sections().items():
        yield from (f"## {heading}", *([causes] if causes and heading == "Diagnosis" else []), text)


def runbook_of(alert: str) -> Runbook | None:
    """Return the runbook of an alert that is not of one check: on a symptom, or on the monitoring; None without one."""
    symptom = SYMPTOMS.get(alert)
    return symptom.runbook if symptom else RUNBOOKS.get(alert)


def _alert(alert: Alert) -> Iterator[str]:
    yield "## Alert"
    yield f"`{alert.name}` (severity `{alert.severity}`) fires {_when(alert)}:"
    yield code(alert.expr)


def _when(alert: Alert) -> str:
    began = f"when this has held for {alert.hold_minutes} minutes" if alert.hold_minutes else "as soon as this holds"
    return f"{began}, and ends {alert.keep_minutes} minutes after it last held" if alert.keep_minutes else began


def _case_rows(cases: Iterable[CheckCase]) -> Iterator[str]:
    every = tuple(cases)
    for expected, heading in _CASES.items():
        if chosen := [case for case in every if case.expect is expected]:
            yield from (f"### {heading}", _titles(chosen))
