"""Objectives as Prometheus metrics: events per server, what took the bad ones, and how fast the budget burns.

Counters begin at zero when the service starts, as counters do; burn rates and budgets are of the whole history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from diagnostics.slo.attribution import BudgetCause
from diagnostics.slo.report import SloReport
from diagnostics.slo.tally import Tally

EVENTS, BAD = "diag_slo_events", "diag_slo_bad_events"
BAD_LOW, BAD_HIGH = "diag_slo_bad_events_low", "diag_slo_bad_events_high"
ATTRIBUTED = "diag_slo_bad_events_attributed"
OBJECTIVE, BURN, LEFT = "diag_slo_objective_ratio", "diag_slo_burn_rate", "diag_slo_budget_remaining_ratio"
LABELS = ("slo", "deployment", "server", "model")
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))
EventKey = tuple[str, str, str, str]
"""Objective, deployment, server, model."""


def event_metrics(
    events: Mapping[EventKey, Tally], causes: Mapping[tuple[str, BudgetCause], float]
) -> Iterator[Metric]:
    """Yield the counters of events, and of what took the bad ones."""
    texts = {
        EVENTS: "Requests that an objective is about.",
        BAD: "Requests that broke the promise: the best estimate, or as many as certainly did.",
        BAD_LOW: "Requests that certainly broke the promise.",
        BAD_HIGH: "Requests that possibly broke the promise.",
    }
    families = {name: CounterMetricFamily(name, text, labels=LABELS) for name, text in texts.items()}
    for key, tally in events.items():
        values = {EVENTS: tally.total, BAD: tally.bad, BAD_LOW: tally.low, BAD_HIGH: tally.high}
        for name, value in values.items():
            families[name].add_metric(key, value)
    yield from families.values()
    text = "Requests that broke the promise, by the root cause that took them; the rest is unexplained."
    attributed = CounterMetricFamily(ATTRIBUTED, text, labels=("slo", "check", "server", "model"))
    for (slo, cause), bad in causes.items():
        attributed.add_metric((slo, cause.check, cause.server, cause.model), bad)
    yield attributed


def report_metrics(reports: Sequence[SloReport]) -> Iterator[Metric]:
    """Yield the gauges of how objectives stand."""
    objective = GaugeMetricFamily(OBJECTIVE, "Share of requests that must be good.", labels=("slo",))
    burn = GaugeMetricFamily(BURN, "How many times faster than allowed the budget burns.", labels=("slo", "window"))
    left = GaugeMetricFamily(LEFT, "Share of the period's budget that is left; below 0: overspent.", labels=("slo",))
    for one in reports:
        objective.add_metric((one.slo.name,), one.slo.objective)
        for window in one.burns:
            if window.rate is not None:
                burn.add_metric((one.slo.name, _duration(window.seconds)), window.rate)
        if one.left is not None:
            left.add_metric((one.slo.name,), one.left)
    yield from (objective, burn, left)


def _duration(seconds: float) -> str:
    """Return a length of time as Prometheus writes it, in the largest unit of which it is whole: `30d`, `6h`, `90s`."""
    size, unit = next((one for one in _UNITS if seconds % one[0] == 0), (1.0, "s"))
    return f"{seconds / size:g}{unit}"
