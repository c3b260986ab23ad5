"""Reports on objectives as JSON, schema version 1; times are seconds and Unix seconds."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.render.json_head import Json, head, schema_text
from diagnostics.slo.burn import BudgetForecast, Pair
from diagnostics.slo.report import Burn, SloReport, Spent
from diagnostics.slo.slo import Slo, Triton
from diagnostics.units import time_text


def slo_report(reports: Sequence[SloReport]) -> Json:
    """Return the reports as JSON-ready data."""
    return {**head("slo"), "slos": [_report(one) for one in reports]}


def slo_schema() -> str:
    """Return the text of the JSON Schema that every report meets."""
    return schema_text("slo")


def _report(report: SloReport) -> Json:
    tally = report.tally
    return {
        **slo_head(report.slo),
        "period": {
            "from": report.at - report.period,
            "to": report.at,
            "to_time": time_text(report.at),
            "seconds": report.period,
            "seen_seconds": report.seen,
        },
        "events": {
            "total": tally.total,
            "bad": tally.bad,
            "bad_low": tally.low,
            "bad_high": tally.high,
            "source": tally.source,
        },
        "budget": {"events": report.allowed, "left": report.left},
        "burns": [_burn(one) for one in report.burns],
        "alerts": [_alert(one) for one in report.alerts],
        "forecast": _forecast(report.forecast) if report.forecast is not None else None,
        "causes": [_cause(one) for one in report.spent],
        "unexplained": report.unexplained,
        "silence": report.silence or None,
        "gaps": list(report.gaps),
    }


def slo_head(slo: Slo) -> Json:
    """Return what a report says of the objective itself, but for its period."""
    sli = slo.sli
    reported = None
    if isinstance(sli, Triton):
        reported = {"promise": sli.promise.value, "model": sli.model, "seconds": sli.seconds}
    return {"name": slo.name, "description": slo.description, "objective": slo.objective, "sli": reported}


def _burn(one: Burn) -> Json:
    return {
        "seconds": one.seconds,
        "total": one.total,
        "bad": one.bad,
        "rate": one.rate,
        "low": one.low,
        "high": one.high,
    }


def _alert(one: Pair) -> Json:
    windows = {"short_seconds": one.short, "long_seconds": one.long}
    return {"severity": one.severity, **windows, "factor": one.factor, "fewest_bad_events": one.fewest}


def _forecast(found: BudgetForecast) -> Json:
    return {
        "expected_seconds": found.expected,
        "soonest_seconds": found.soonest,
        "latest_seconds": found.latest,
        "over_seconds": found.over,
    }


def _cause(one: Spent) -> Json:
    cause = one.cause
    about = {"check": cause.check, "server": cause.server, "model": cause.model, "fingerprint": cause.fingerprint}
    incidents = [
        {"id": found.id, "onset": found.onset, "seen": found.seen, "closed": found.closed, "summary": found.summary}
        for found in one.incidents
    ]
    return {**about, "bad": one.bad, "share": one.share, "incidents": incidents}
