"""The diagnosis service itself: whether it reads, evaluates and notifies in time, and what it costs."""

from __future__ import annotations

from dashboards.layout import (
    DashboardSpec,
    Format,
    Panel,
    PanelKind,
    PanelQuery,
    PanelSection,
    increase,
    largest,
    scraped,
    total,
)
from diagnostics.service.own.metrics import OwnMetrics
from exporters.sinks.exposition import READINGS

_OWN = OwnMetrics()


def _name(metric: object, suffix: str = "") -> str:
    """Return the name that Prometheus gives a metric of the service."""
    described = metric.describe()[0]  # type: ignore[attr-defined]
    return f"{described.name}{suffix}"


def _counted(title: str, text: str, metric: object, *by: str, runbook: str | None = None) -> Panel:
    return Panel(
        title=title,
        description=f"{text} Over the interval of a point.",
        unit=Format.COUNT,
        queries=(
            PanelQuery(
                expr=total(increase(scraped(_name(metric, "_total"))), *by),
                legend=" ".join(f"{{{{{label}}}}}" for label in by),
            ),
        ),
        kind=PanelKind.STACKED,
        width=8,
        runbook=runbook,
    )


_READS = PanelSection(
    title="Reading",
    panels=(
        _counted(
            "Rounds",
            "Rounds of reads by outcome; skipped ones came while the one before went on.",
            _OWN.rounds,
            "outcome",
            runbook="target-down",
        ),
        Panel(
            title="Time of a round",
            description="How long the last round of each server took; the slowest are shown.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=f"topk(10, {scraped(_name(_OWN.round_seconds))})", legend="{{server}}"),),
            width=8,
        ),
        _counted("Spans", "Spans that arrived, by what became of them.", _OWN.spans, "outcome"),
    ),
)
_VERDICTS = PanelSection(
    title="Judging",
    panels=(
        Panel(
            title="From scrape to verdict",
            description="Age of the newest scrape when its verdict was there; the slowest deployments. Above the "
            "interval of the reads, the service is behind.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=f"topk(10, {scraped(_name(_OWN.evaluation_lag))})", legend="{{deployment}}"),),
            width=8,
        ),
        Panel(
            title="Processor time of a verdict",
            description="Mean over the interval of a point.",
            unit=Format.SECONDS,
            queries=(
                PanelQuery(
                    expr=f"{total(increase(scraped(_name(_OWN.evaluation_seconds, '_sum'))))} / "
                    f"({total(increase(scraped(_name(_OWN.evaluation_seconds, '_count'))))} > 0)",
                    legend="mean",
                ),
            ),
            width=8,
        ),
        Panel(
            title="Readings by source",
            description="Readings behind the derived signals, by where they were read. A source that goes away makes "
            "verdicts less certain.",
            unit=Format.COUNT,
            queries=(
                PanelQuery(
                    expr=f"label_replace({total(scraped(READINGS.name), 'source', 'estimated')}, "
                    '"how", ", estimated", "estimated", "true")',
                    legend="{{source}}{{how}}",
                ),
            ),
            kind=PanelKind.STACKED,
            width=8,
        ),
    ),
)
_TELLS = PanelSection(
    title="Remembering and telling",
    panels=(
        Panel(
            title="Queues",
            description="What waits, by queue; the longest of the services.",
            unit=Format.COUNT,
            queries=(PanelQuery(expr=largest(scraped(_name(_OWN.queue_length)), "queue"), legend="{{queue}}"),),
            width=8,
        ),
        _counted("Dropped", "What a full queue let fall: history or messages that are lost.", _OWN.dropped, "queue"),
        _counted("Errors", "What went wrong, by part of the service; the log says what.", _OWN.errors, "part"),
        _counted(
            "Deliveries", "Messages to Alertmanagers and webhooks by outcome.", _OWN.deliveries, "receiver", "outcome"
        ),
        _counted("Requests turned away", "HTTP requests that were refused, by reason.", _OWN.refused, "reason"),
        Panel(
            title="Processor time of the metrics page",
            description="What it takes to make the page that Prometheus scrapes.",
            unit=Format.SECONDS,
            queries=(PanelQuery(expr=scraped(_name(_OWN.page_seconds)), legend="{{instance}}"),),
            width=8,
        ),
    ),
)
BOARD = DashboardSpec(
    uid="diag-service",
    title="Triton / Diagnosis service",
    description="Whether diag serve reads, judges and tells in time.",
    job_of=_name(_OWN.rounds, "_total"),
    sections=(_READS, _VERDICTS, _TELLS),
)
