"""The page that lists what is generated: checks, alerts, recorded metrics, and what their queries cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from diagnostics.checks.catalogue import RegisteredCheck
from diagnostics.gen.alert import Alert
from diagnostics.gen.markdown import table
from diagnostics.gen.query_cost import cost, total
from diagnostics.gen.recording import Recording
from diagnostics.gen.rule_groups import RECORDED, SYMPTOMS

_FOLDERS = """\
- `recording/` and `alerts/` hold rules for Prometheus 2.42 and later; load both folders (`rule_files`).
- `runbooks/` has a page for each alert; `tests/` their unit tests for `promtool test rules`.
- `lint/` has [a page for each rule of `diag lint`](lint/README.md).
- `alertmanager/` is an example of Alertmanager's configuration: a notification per server, and a cause inhibits its
  consequences and its symptoms.
- `prometheusrule.yaml` holds the same rules as a resource of the Prometheus operator, `mixin/` as a monitoring mixin;
  `kustomization.yaml` lets `kubectl apply -k` take the resource.

How often each would have fired on your own history: `diag gen rules --replay http://prometheus:9090 --since 7d`."""
_SYMPTOMS = """\
They need Triton's own metrics alone, name what hurts and never why, and point to `diag explain`. While an alert on a
cause fires for the same server and model, the example for Alertmanager keeps them quiet."""
_RECORDED = """\
Each is a sum of rates ÷ a sum of rates: right below one request per second, through restarts and over replicas, and
absent without traffic. `instance_…` keeps all labels but those it sums away; `job_…` is over the replicas of a job.
Never add up models: the row of an ensemble repeats the compute of its members."""


def overview(checks: Iterable[RegisteredCheck], causes: Mapping[str, Alert], meta: Sequence[Alert]) -> str:
    """Return the page."""
    return "\n\n".join(
        [
            "# Checks, alerts and runbooks",
            _FOLDERS,
            "## Causes",
            "An alert fires once `diag_finding` of its check has been 1 for as long as its rule says.",
            _causes(checks, causes),
            "## Symptoms",
            _SYMPTOMS,
            _alerts([one.alert for one in SYMPTOMS.values()]),
            "## The watching itself",
            _alerts(meta),
            "## Recorded metrics",
            _RECORDED,
            _recorded(RECORDED.values()),
            "## What the queries cost",
            f"{_cost([*(one.alert for one in SYMPTOMS.values()), *meta])}\n",
        ]
    )


def _causes(checks: Iterable[RegisteredCheck], causes: Mapping[str, Alert]) -> str:
    return table(
        ("check", "layer", "what it means", "alert", "severity"),
        (
            (_link(found.id), found.check.layer.value, found.title, causes[found.id].name, causes[found.id].severity)
            for found in checks
        ),
    )


def _alerts(alerts: Iterable[Alert]) -> str:
    return table(
        ("alert", "severity", "for", "expression", "runbook", "series read"),
        (
            (
                alert.name,
                alert.severity,
                f"{alert.hold_minutes}m",
                f"`{alert.expr}`",
                _link(alert.id),
                str(cost(alert.expr)),
            )
            for alert in alerts
        ),
    )


def _recorded(recordings: Iterable[Recording]) -> str:
    return table(
        ("metric", "unit", "meaning", "series read"),
        ((f"`{one.name}`", one.unit.value, one.meaning, str(cost(one.expr))) for one in recordings),
    )


def _cost(alerts: Sequence[Alert]) -> str:
    recorded = [one.expr for one in RECORDED.values()]
    expressions = [alert.expr for alert in alerts]
    return (
        "A rule is one query per evaluation, however many servers there are. What it reads is told above, per server, "
        "as series. For a server with 20 models, one of them an engine, and 4 GPUs, the "
        f"{len(recorded)} recording rules read {total(recorded):,} series and the {len(expressions)} alerts on "
        f"symptoms and on the watching {total(expressions):,}, over at most five minutes but for "
        "TritonModelQueueGrows (15) and TritonGpuReportsErrors (15). An alert on a cause reads its findings."
    )


def _link(identifier: str) -> str:
    return f"[{identifier}](runbooks/{identifier}.md)"
