"""Objectives in Sloth's form, `version: prometheus/v1` (sloth.dev, specification of prometheus/v1)."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.settings.yaml_file import Leaf
from diagnostics.slo.fields import YamlFields, of_objective
from diagnostics.slo.promql_queries import understood, with_window
from diagnostics.slo.promql_text import promql
from diagnostics.slo.slo import Promql, Slo, Triton, checked

VERSION = "prometheus/v1"
_SLO = ("name", "objective", "description", "labels", "sli", "alerting")


def sloth(document: YamlFields) -> Iterator[Slo]:
    """Yield the objectives of a document. Its period is 30 days, Sloth's own.

    Raises:
        UsageError: something is missing, mistyped, or cannot be measured.

    """
    document.only("version", "service", "labels", "slos", "slo_plugins")
    service = document.text("service")
    shared = {"service": service} | document.texts("labels")
    for one in document.sections("slos"):
        one.only(*_SLO, "plugins")
        name = f"{service}-{one.text('name')}"
        with of_objective(name):
            sli = _sli(one.section("sli"))
        yield checked(
            Slo(
                name=name,
                objective=one.percent("objective"),
                sli=sli,
                description=one.text("description", ""),
                labels=shared | one.texts("labels") | _alerting(one).texts("labels"),
                alert_labels={severity: alert.texts("labels") for severity, alert in _alerts(_alerting(one))},
                quiet=frozenset(severity for severity, alert in _alerts(_alerting(one)) if alert.flag("disable")),
                where=f"{one.document.file}:{one.leaf.line}",
            )
        )


def _alerting(slo: YamlFields) -> YamlFields:
    """Return how people are told: names and annotations of alerts are this project's own."""
    nothing = YamlFields(slo.document, Leaf(line=slo.leaf.line, value=None), "alerting")
    found = slo.section("alerting") if slo.has("alerting") else nothing
    return found.only("name", "labels", "annotations", "page_alert", "ticket_alert")


def _alerts(alerting: YamlFields) -> Iterator[tuple[str, YamlFields]]:
    """Yield what is said of the alerts of each severity."""
    for severity in ("page", "ticket"):
        if alerting.has(f"{severity}_alert"):
            yield severity, alerting.section(f"{severity}_alert").only("disable", "labels", "annotations")


def _sli(sli: YamlFields) -> Triton | Promql:
    sli.only("events", "raw", "plugin")
    if not sli.has("events"):
        found = "raw" if sli.has("raw") else "plugin"
        hint = "write events: with error_query and total_query"
        raise sli.wrong("a ratio alone, or a plugin, does not tell how many events there were", hint, found)
    events = sli.section("events").only("error_query", "total_query")
    return understood(Promql(total=_query(events, "total_query"), bad=_query(events, "error_query")))


def _query(events: YamlFields, key: str) -> str:
    found = with_window(promql(events, key))
    if found is None:
        raise events.wrong(f"{key} has no range", "write it with [{{.window}}]", key)
    return found
