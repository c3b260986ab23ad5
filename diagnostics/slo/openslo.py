"""Objectives in OpenSLO's form, `apiVersion: openslo/v1` (github.com/OpenSLO/OpenSLO, README of 2025-09).

Read are SLO, SLI and DataSource, in any order, any number of them in a file. What notifies and alerts is this project's
own, so that AlertPolicy, AlertCondition, AlertNotificationTarget and Service are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from diagnostics import names
from diagnostics.settings.yaml_file import Leaf
from diagnostics.slo.fields import YamlFields, of_objective
from diagnostics.slo.promql import promql, threshold, understood, with_window
from diagnostics.slo.slo import Promql, Slo, Triton, checked
from diagnostics.units import parse_whole

OPENSLO_VERSION = "openslo/v1"
KINDS = frozenset({"SLO", "SLI", "DataSource", "Service", "AlertPolicy", "AlertCondition", "AlertNotificationTarget"})
_HEAD = ("apiVersion", "kind", "metadata", "spec")
_SLO = ("description", "service", "indicator", "indicatorRef", "timeWindow", "budgetingMethod", "objectives")
_UNITS = {"m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_OBJECTIVE = ("displayName", "target", "targetPercent", "op", "value", "indicator", "indicatorRef")


def openslo(documents: Sequence[YamlFields]) -> Iterator[Slo]:
    """Yield the objectives of some documents.

    Raises:
        UsageError: something is missing, mistyped, or cannot be measured.

    """
    for one in documents:
        one.only(*_HEAD)
        if one.text("kind") not in KINDS:
            raise one.wrong(
                f"{one.text('kind')!r} is no kind of {OPENSLO_VERSION}", f"it has {', '.join(sorted(KINDS))}", "kind"
            )
    by_kind = {kind: _named([one for one in documents if one.text("kind") == kind]) for kind in KINDS}
    for slo in documents:
        if slo.text("kind") == "SLO":
            yield from _slo(slo, by_kind)


def _named(documents: Sequence[YamlFields]) -> dict[str, YamlFields]:
    """Return documents of one kind by their names, of which each is there once."""
    found: dict[str, YamlFields] = {}
    for one in documents:
        name = _name(one)
        if found.setdefault(name, one) is not one:
            what = f"there is another {one.text('kind')} {name!r}, in line {found[name].leaf.line}"
            raise one.wrong(what, "give it a name of its own")
    return found


def _name(document: YamlFields) -> str:
    return document.section("metadata").text("name")


Known = Mapping[str, Mapping[str, YamlFields]]


def _slo(document: YamlFields, known: Known) -> Iterator[Slo]:
    spec = document.section("spec").only(*_SLO, "alertPolicies")
    method = spec.text("budgetingMethod", "Occurrences")
    if method != "Occurrences":
        hint = "write budgetingMethod: Occurrences"
        raise spec.wrong(f"budgets of {method} are not supported", hint, "budgetingMethod")
    objectives = spec.sections("objectives")
    for number, objective in enumerate(objectives):
        objective.only(*_OBJECTIVE)
        holder = objective if {"indicator", "indicatorRef"} & objective.keys() else spec
        suffix = objective.text("displayName", str(number + 1)).lower().replace(" ", "-")
        name = _name(document) if len(objectives) == 1 else f"{_name(document)}-{suffix}"
        with of_objective(name):
            sli = _indicator(holder, objective, known)
        yield checked(
            Slo(
                name=name,
                objective=_target(objective),
                sli=sli,
                period=_period(spec),
                description=spec.text("description", ""),
                labels={"service": spec.text("service")} if spec.has("service") else {},
                where=f"{objective.document.file}:{objective.leaf.line}",
            )
        )


def _target(objective: YamlFields) -> float:
    if objective.has("targetPercent") and objective.has("target"):
        raise objective.wrong("has a target and a targetPercent", "leave one of them out", "targetPercent")
    if objective.has("targetPercent"):
        return objective.percent("targetPercent")
    return objective.number("target", "write 99 % as 0.99")


def _period(spec: YamlFields) -> float:
    windows = spec.sections("timeWindow")
    window = windows[0].only("duration", "isRolling", "calendar")
    if len(windows) > 1:
        raise windows[1].wrong("an objective has one timeWindow", "leave the others out")
    if window.text("isRolling", "true").lower() != "true" or window.has("calendar"):
        raise window.wrong("calendar periods are not supported", "write isRolling: true and no calendar")
    text = window.text("duration")
    unit, count = _UNITS.get(text[-1:]), parse_whole(text[:-1])
    if unit is None or count is None:
        raise window.wrong(f"duration is {text!r}, which is none", "write 30d, 4w or 12h", "duration")
    return count * unit


def _indicator(holder: YamlFields, objective: YamlFields, known: Known) -> Triton | Promql:
    if holder.has("indicator"):
        spec = holder.section("indicator").only("metadata", "spec").section("spec")
    else:
        name = holder.text("indicatorRef")
        if name not in known["SLI"]:
            raise holder.wrong(f"there is no SLI {name!r}", "put it into the same file", "indicatorRef")
        spec = known["SLI"][name].section("spec")
    spec.only("description", "ratioMetric", "thresholdMetric")
    if spec.has("ratioMetric"):
        return _ratio(spec.section("ratioMetric"), known)
    return _threshold(spec.section("thresholdMetric"), objective, known)


def _ratio(ratio: YamlFields, known: Known) -> Triton | Promql:
    ratio.only("counter", "good", "bad", "total", "raw", "rawType")
    if ratio.has("raw"):
        hint = "give good or bad, and total"
        raise ratio.wrong("a ratio alone does not tell how many events there were", hint, "raw")
    if ratio.has("good") and ratio.has("bad"):
        raise ratio.wrong("gives good and bad events", "leave one of them out: the other follows from total", "bad")
    counter = ratio.flag("counter")
    total = _query(ratio.section("total"), known, counter=counter)
    if ratio.has("good"):
        return understood(Promql(total=total, good=_query(ratio.section("good"), known, counter=counter)))
    return understood(Promql(total=total, bad=_query(ratio.section("bad"), known, counter=counter)))


def _threshold(metric: YamlFields, objective: YamlFields, known: Known) -> Triton:
    if objective.text("op", "lte") not in ("lt", "lte"):
        raise objective.wrong("only times below a limit are understood", "write op: lte", "op")
    query, source = _source(metric, known)
    found = threshold(query, objective.number("value"))
    if found is None:
        hint = f'use {names.REQUEST_DURATION}{{model="…"}} with its value in µs, or a ratioMetric'
        raise source.wrong("a threshold on this query cannot be counted in requests", hint, "query")
    return found


def _query(metric: YamlFields, known: Known, *, counter: bool) -> str:
    query, source = _source(metric, known)
    found = with_window(query, counter=counter)
    if found is None:
        raise source.wrong(
            "the query has no range", "write it with [5m] or [{{.window}}], or say counter: true", "query"
        )
    return found


def _source(metric: YamlFields, known: Known) -> tuple[str, YamlFields]:
    """Return the query of a metric, and the mapping it stands in."""
    source = metric.section("metricSource").only("metricSourceRef", "type", "spec")
    kind = source.text("type", "Prometheus")
    if source.has("metricSourceRef"):
        name = source.text("metricSourceRef")
        if name not in known["DataSource"]:
            raise source.wrong(f"there is no DataSource {name!r}", "put it into the same file", "metricSourceRef")
        kind = known["DataSource"][name].section("spec").text("type")
    if kind.lower() not in ("prometheus", "thanos", "mimir", "victoriametrics"):
        raise source.wrong(f"sources of type {kind!r} are not supported", "use Prometheus")
    spec = source.section("spec")
    return promql(spec, "query"), spec


SLOTH_VERSION = "prometheus/v1"
_SLOTH_SLO = ("name", "objective", "description", "labels", "sli", "alerting")


def sloth(document: YamlFields) -> Iterator[Slo]:
    """Yield the objectives of a document. Its period is 30 days, Sloth's own.

    Raises:
        UsageError: something is missing, mistyped, or cannot be measured.

    """
    document.only("version", "service", "labels", "slos", "slo_plugins")
    service = document.text("service")
    shared = {"service": service} | document.texts("labels")
    for one in document.sections("slos"):
        one.only(*_SLOTH_SLO, "plugins")
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
    """Return how people are notified: names and annotations of alerts are this project's own."""
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
    return understood(Promql(total=_sloth_query(events, "total_query"), bad=_sloth_query(events, "error_query")))


def _sloth_query(events: YamlFields, key: str) -> str:
    found = with_window(promql(events, key))
    if found is None:
        raise events.wrong(f"{key} has no range", "write it with [{{.window}}]", key)
    return found
