"""What is wrong now, where, and how much of the latency it takes."""

from __future__ import annotations

from dashboards.layout import (
    MODEL_VARIABLE,
    SERVER_LEGEND,
    SERVICE,
    DashboardSpec,
    Format,
    Panel,
    PanelKind,
    PanelQuery,
    PanelSection,
    diagnosed,
    largest,
    mean_seconds,
    model_rate,
    ratio,
    scraped,
    total,
)
from diagnostics import names
from diagnostics.checks.entries import FAILED_PART
from diagnostics.diagnosis.explanation import Verdict
from exporters.sinks.exposition import FOUND, IMPACT, INCIDENT, LATENCY, SHARE, TARGET_UP, UNKNOWN, VERDICT

_BY_MODEL = (names.MODEL,)
_FAILED = model_rate(names.REQUEST_FAILURE, *_BY_MODEL)
_ANSWERED = model_rate(names.REQUEST_SUCCESS, *_BY_MODEL)
_ENTRY = f"{{{{ensemble}}}}{{{{model}}}} {SERVER_LEGEND}"
_CAUSE = f"{{{{check}}}} {SERVER_LEGEND} {{{{ensemble}}}} {{{{model}}}} {{{{gpu}}}}"
# What a row that names a deployment and a check leads to.
_CHECK = "${__data.fields.check}"
_DEPLOYMENT = ("Deployment", f"{SERVICE}/deployments/${{__data.fields.deployment}}")
_INCIDENTS = (
    "Open incidents",
    f"{SERVICE}/incidents?state=open&deployment=${{__data.fields.deployment}}&check={_CHECK}",
)
_RUNBOOK = ("Runbook", f"${{runbooks}}/{_CHECK}")
_COLOURS = {
    Verdict.HEALTHY: "green",
    Verdict.IDLE: "blue",
    Verdict.INSUFFICIENT_DATA: "purple",
    Verdict.NO_CLEAR_CAUSE: "orange",
    Verdict.DEGRADED: "red",
}
# One number per verdict, so that a state has one series per deployment.
_NUMBERED = dict(enumerate(_COLOURS, 1))
_VERDICTS = " or ".join(
    f'{number} * (max by (deployment) ({VERDICT.name}{{verdict="{verdict.value}"}}) == 1)'
    for number, verdict in _NUMBERED.items()
)

_FELT = PanelSection(
    title="What users feel",
    panels=(
        Panel(
            title="Latency, 95th percentile",
            description="95 of 100 requests of an entry point are answered in the server within this. It is of traced "
            "requests, else of Triton's summaries (--metrics-config=summary_latencies=true). Without both: no line.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=diagnosed(LATENCY.name, 'statistic="p95"'), legend=_ENTRY),),
        ),
        Panel(
            title="Latency, mean",
            description="Mean time of an entry point's requests in the server, over the window of the verdict.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=diagnosed(LATENCY.name, 'statistic="mean"'), legend=_ENTRY),),
        ),
        Panel(
            title="Share of requests that failed",
            description="Failed ÷ (answered + failed), over all replicas. No value where nothing was asked.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=ratio(f"({_FAILED})", f"({_FAILED} + {_ANSWERED})"), legend="{{model}}"),),
            most=1,
            red_from=FAILED_PART.value,
            runbook="request-failures",
        ),
        Panel(
            title="Requests answered",
            description="Requests per second that a model answered. An ensemble and its members each have a row: they "
            "are the same requests, so rows must not be added up.",
            unit=Format.PER_SECOND,
            queries=(PanelQuery(expr=_ANSWERED, legend="{{model}}"),),
        ),
    ),
)
_NOW = PanelSection(
    title="Now",
    panels=(
        Panel(
            title="Verdict",
            description="What the diagnosis service says of each deployment. Degraded means that a cause was found; "
            "no-clear-cause that something is wrong which the evidence does not explain.",
            unit=Format.NONE,
            queries=(PanelQuery(expr=_VERDICTS, legend="{{deployment}}"),),
            kind=PanelKind.STATES,
            states={number: (verdict.value, _COLOURS[verdict]) for number, verdict in _NUMBERED.items()},
            width=18,
            runbook="targets-absent",
        ),
        Panel(
            title="Servers that are read",
            description="Tritons whose counters the last round of the diagnosis service read, and those it could not.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(expr=f"sum({diagnosed(TARGET_UP.name)})", legend="read"),
                PanelQuery(expr=f"count({diagnosed(TARGET_UP.name)} == 0) or vector(0)", legend="not read"),
            ),
            kind=PanelKind.NUMBER,
            width=6,
            runbook="target-down",
        ),
        Panel(
            title="Findings",
            description="Causes found in the newest verdicts, with the share of a request's mean time that each one "
            "explains. The shares of one deployment add up to at most 100 %. Evidence and patch: diag explain.",
            unit=Format.SHARE,
            queries=(PanelQuery(expr=f"sort_desc({diagnosed(SHARE.name)} and {diagnosed(FOUND.name)} == 1)"),),
            kind=PanelKind.TABLE,
            width=14,
            opens=(_DEPLOYMENT, _INCIDENTS, _RUNBOOK),
        ),
        Panel(
            title="Open incidents",
            description="When each incident that lasts was confirmed. One per cause and subject.",
            unit=Format.INSTANT,
            queries=(PanelQuery(expr=f"1000 * {diagnosed(INCIDENT.name)} or vector(0) > 1"),),
            kind=PanelKind.TABLE,
            width=10,
            opens=(_INCIDENTS, _DEPLOYMENT, _RUNBOOK),
        ),
    ),
)
_CAUSES = PanelSection(
    title="Causes over time",
    panels=(
        Panel(
            title="Latency explained by each cause",
            description="Seconds of a request's mean time that a finding explains; estimated. Consequences claim what "
            "their cause does not, so that the areas add up.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=diagnosed(IMPACT.name), legend=_CAUSE),),
            kind=PanelKind.STACKED,
            width=16,
        ),
        Panel(
            title="Checks that cannot decide",
            description="Subjects that a check could not judge, by what was missing. What lasts for an hour hides a "
            "cause.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=f"sum by (reason) ({UNKNOWN.name})", legend="{{reason}}"),),
            kind=PanelKind.STACKED,
            width=8,
            runbook="check-undecided",
        ),
    ),
)
_TRAFFIC = PanelSection(
    title="As Triton counts it",
    panels=(
        Panel(
            title="Mean time of a request",
            description="From arrival to release, in the server; network and client are not in it. A mean, not a "
            "percentile: Triton's counters have none.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=mean_seconds(names.REQUEST_DURATION, *_BY_MODEL), legend="{{model}}"),),
        ),
        Panel(
            title="Requests waiting",
            description="Gauge of requests that wait in a model's scheduler, the largest of its replicas. Since "
            "Triton 23.09.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=largest(scraped(names.PENDING_REQUESTS), *_BY_MODEL), legend="{{model}}"),),
        ),
        Panel(
            title="Scrapes of Triton",
            description="Servers that Prometheus scrapes, and those that answer.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(expr=total(scraped("up")), legend="answer"),
                PanelQuery(expr=f"count({scraped('up')})", legend="scraped"),
            ),
            width=24,
            height=6,
        ),
    ),
)

BOARD = DashboardSpec(
    uid="diag-overview",
    title="Triton / Overview",
    description="What users feel, verdicts, causes with the latency that each takes.",
    job_of=names.REQUEST_SUCCESS,
    sections=(_FELT, _NOW, _CAUSES, _TRAFFIC),
    variables=(MODEL_VARIABLE,),
)
