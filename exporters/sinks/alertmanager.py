"""An open incident as an alert of Alertmanager's API, version 2.

Labels identify the alert: those of the Prometheus rule on the same check, so that both can inhibit each other, with
`sender` and the incident's severity. Of what changes only the severity is a label, which routes are chosen by; it is
lowered after a steady while only, and then the alert with the old one ends. The rest is in annotations.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident
from diagnostics.gen.alert import Alert, alert_name
from diagnostics.gen.finding_alerts import SENDER, finding_alerts
from diagnostics.render.phrases import cause_named
from diagnostics.units import Unit, utc
from exporters.sinks.links import Links, harmless
from exporters.sinks.suggested import suggested

PATH, SILENCES = "/api/v2/alerts", "/api/v2/silences"
_MOST_OF_A_LABEL = 200
Json = dict[str, Any]
Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAlert:
    """An alert that fires, or fired. Times are Unix seconds.

    Attributes:
        labels: what it is identified by.
        annotations: what is said of it.
        starts_at: onset of the incident.
        ended: when the incident closed; None while it lasts.
        url: the incident's page.
        behind: the key of its cause's alert; None for a root.

    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: float
    url: str
    ended: float | None = None
    behind: Key | None = None

    @property
    def key(self) -> Key:
        """The labels as Alertmanager compares them."""
        return _key(self.labels)

    def close(self, at: float, because: str = "") -> IncidentAlert:
        """Return the alert as resolved at Unix second `at`, with the reason where there is one."""
        reason = {"ended_because": because} if because else {}
        return replace(self, ended=max(at, self.starts_at), annotations={**self.annotations, **reason})

    def body(self, until: float) -> Json:
        """Return the API's form; a firing alert resolves by itself at Unix second `until`, unless it is repeated."""
        ends = max(until, self.starts_at) if self.ended is None else self.ended
        return {
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": _time(self.starts_at),
            "endsAt": _time(ends),
            "generatorURL": self.url,
        }


def encoded(alerts: Iterable[IncidentAlert], until: float) -> bytes:
    """Return the body of a POST to `PATH`."""
    return json.dumps([alert.body(until) for alert in alerts], ensure_ascii=False).encode("utf-8", "replace")


def silence(incident: Incident, *, who: str, why: str, start: float, end: float) -> bytes:
    """Return the body of a POST to `SILENCES`: of the incident's alert at any severity, and of the rule's on it."""
    labels = {name: text for name, text in _labels(incident, {}).items() if name not in ("severity", "sender")}
    matchers = [{"name": name, "value": text, "isRegex": False, "isEqual": True} for name, text in labels.items()]
    times = {"startsAt": _time(start), "endsAt": _time(end)}
    return json.dumps({"matchers": matchers, **times, "createdBy": harmless(who), "comment": harmless(why)}).encode()


def incident_alert(
    incident: Incident,
    finding: Finding | None,
    cause: Incident | None,
    links: Links,
    added: Mapping[str, str],
    changed: str = "",
    felt: str = "",
    address: str = "",
) -> IncidentAlert:
    """Return the alert of an open incident.

    Args:
        incident: what it is about.
        finding: the newest finding behind it; None leaves out suggestion, patch and prediction.
        cause: the incident that this one is a consequence of, if that is open.
        links: addresses of the service's pages.
        added: labels of the settings.
        changed: the changes of settings of what it is about; empty where there were none.
        felt: what users feel, as `phrases.felt_from`; empty where that is not known.
        address: URL of the server's HTTP API, which its label is not; empty where that is not known.

    """
    labels = _labels(incident, added)
    reported = {
        "summary": _summary(incident, felt),
        "description": _description(incident),
        "runbook_url": links.runbook(incident.check),
        "dashboard_url": links.incident(incident.id),
        "picture_url": links.picture(incident.id),
        "caused_by": f"{cause.check}: {links.incident(cause.id)}" if cause else "",
        "settings_changed": changed,
        "server_url": address,
        **suggested(finding),
    }
    return IncidentAlert(
        labels=labels,
        annotations={name: text for name, text in reported.items() if text},
        starts_at=incident.onset,
        url=links.incident(incident.id),
        behind=_key(_labels(cause, added)) if cause else None,
    )


def _key(labels: Mapping[str, str]) -> Key:
    return tuple(sorted(labels.items()))


def _labels(incident: Incident, added: Mapping[str, str]) -> dict[str, str]:
    named = {**incident.subject.to_dict(), "deployment": incident.deployment}
    return {
        **added,
        "alertname": alert_name(incident.check),
        "check": incident.check,
        "severity": _severity(incident),
        "sender": SENDER,
        **{name: harmless(value, _MOST_OF_A_LABEL) for name, value in named.items() if value},
    }


def _severity(incident: Incident) -> str:
    """Return the severity that alerts are routed by: what only weakens a diagnosis is `info`, as in the rule on it."""
    rule = _rules().get(incident.check)
    quiet = rule is not None and rule.severity == Severity.INFO.value
    return Severity.INFO.value if quiet else incident.severity.value


def _summary(incident: Incident, felt: str) -> str:
    """Return what users feel, the cause, and what shows it: receivers without our templates show nothing else."""
    parts = (felt, cause_named(incident), incident.summary.rstrip("."))
    return harmless(": ".join(part for part in parts if part))


def _description(incident: Incident) -> str:
    cost = []
    if incident.seconds_per_request > 0:
        share = Unit.RATIO.show(incident.share_of_latency)
        cost.append(f"takes {Unit.SECONDS.show(incident.seconds_per_request)} of each request ({share})")
    if incident.share_of_requests_failed > 0:
        cost.append(f"fails {Unit.RATIO.show(incident.share_of_requests_failed)} of requests")
    parts = (
        incident.summary.rstrip("."),
        f"It {' and '.join(cost)}" if cost else "",
        f"Since {_time(incident.onset)}, last seen {_time(incident.seen)}",
        f"Confidence {Unit.RATIO.show(incident.confidence)}",
    )
    return harmless(". ".join(part for part in parts if part) + ".", 2_000)


@cache
def _rules() -> Mapping[str, Alert]:
    return {alert.id: alert for alert in finding_alerts(catalogue().values())}


def _time(at: float) -> str:
    return utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")
