"""Incidents as a book keeps them, made by hand or from a recording."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident, IncidentBook, IncidentChange, IncidentTransition
from diagnostics.service.deployment import Deployment
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation
from diagnostics.signals.signal import Subject
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.capture import open_capture
from exporters.sinks.links import Links
from exporters.sinks.webhook import IncidentEvent, message
from tests.collect.fake_triton import CAPTURE

LINKS = Links("https://diag.example.org")
BEGIN = 1_790_000_000.0
SAFETY = Subject(server="triton-0:8002", model="safety", version="1", ensemble="chat")


def composed(reported: IncidentEvent, one: Incident, _: Explanation | None) -> dict[str, Any]:
    """Write what a webhook is told."""
    return message(reported, one, LINKS)


def incident(check: str = "gpu-saturated", subject: Subject = SAFETY, **changes: object) -> Incident:
    known = catalogue()[check]
    made = Incident(
        id=f"{check}-1",
        fingerprint=f"{check}-{subject.model}",
        deployment="chat",
        check=check,
        title=known.title,
        layer=known.check.layer,
        subject=subject,
        severity=Severity.WARNING,
        worst=Severity.WARNING,
        confidence=0.93,
        summary="instances are busy 97 % of the time.",
        onset=BEGIN,
        opened=BEGIN + 30,
        seen=BEGIN + 30,
        seconds_per_request=0.21,
        share_of_latency=0.74,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def verdict(*changes: tuple[IncidentTransition, Incident], findings: tuple[Finding, ...] = ()) -> Evaluation:
    """Return a verdict of which only changes and findings matter."""
    return Evaluation(
        deployment="chat",
        at=BEGIN,
        took=0.0,
        lag=0.0,
        explanation=SimpleNamespace(  # type: ignore[arg-type]
            findings=findings, changes=(), symptoms=(), anatomy=(), window=SimpleNamespace(addresses={})
        ),
        changes=tuple(IncidentChange(kind=kind, incident=one) for kind, one in changes),
    )


def opened(*incidents: Incident) -> Evaluation:
    return verdict(*((IncidentTransition.OPENED, one) for one in incidents))


def updated(*incidents: Incident) -> Evaluation:
    return verdict(*((IncidentTransition.UPDATED, one) for one in incidents))


def closed(*incidents: Incident, at: float = BEGIN + 600) -> Evaluation:
    return verdict(*((IncidentTransition.CLOSED, replace(one, closed=at)) for one in incidents))


@cache
def recorded() -> Evaluation:
    """Return the verdict on a recording in which one instance is too few: it opens an incident with a patch."""
    window = RollingWindow("chat", 300.0, max_spans=0)
    book = IncidentBook("chat", open_after=1)
    watched = Deployment("chat", window, book, OwnMetrics(), interval=5.0)
    for scrape in open_capture(CAPTURE).scrapes():
        watched.give(scrape)
    watched.take_in()
    return watched.evaluate()


@cache
def judged() -> tuple[Incident, Finding]:
    """Return the incident of `recorded`, with its finding."""
    found = {finding.id: finding for finding in recorded().explanation.findings if finding.advice}
    one = next(change.incident for change in recorded().changes if change.incident.fingerprint in found)
    return one, found[one.fingerprint]
