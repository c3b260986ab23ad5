"""Incidents and findings as rows, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from diagnostics.checks.check import Layer, Severity
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Ending, Incident
from diagnostics.signals.subject import Subject

Row = dict[str, Any]
_SUBJECT = ("server", "model", "version", "gpu", "ensemble")
_PLAIN = (
    "id",
    "fingerprint",
    "deployment",
    "check",
    "title",
    "confidence",
    "summary",
    "onset",
    "opened",
    "seen",
    "closed",
    "seconds_per_request",
    "share_of_latency",
    "share_of_requests_failed",
    "peak",
    "peak_at",
    "caused_by",
)


def text(value: str) -> str:
    """Return text that every database stores: servers may name things with bytes that PostgreSQL refuses."""
    return value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def clean(row: Row) -> Row:
    """Return a row with all of its texts storable."""
    return {name: text(value) if isinstance(value, str) else value for name, value in row.items()}


def row_of(incident: Incident) -> Row:
    """Return an incident as a row."""
    kinds = {"layer": incident.layer.value, "severity": incident.severity.value, "worst": incident.worst.value}
    ending = {"ending": incident.ending.value if incident.ending else None}
    return clean({name: getattr(incident, name) for name in _PLAIN} | incident.subject.to_dict() | kinds | ending)


def incident_of(row: Mapping[str, Any]) -> Incident:
    """Return the incident of a row."""
    return Incident(
        **{name: row[name] for name in _PLAIN},
        subject=Subject(**{name: row[name] for name in _SUBJECT}),
        layer=Layer(row["layer"]),
        severity=Severity(row["severity"]),
        worst=Severity(row["worst"]),
        ending=Ending(row["ending"]) if row["ending"] else None,
    )


def finding_row(deployment: str, at: float, finding: Finding, *, present: bool) -> Row:
    """Return a finding, as it stood at Unix second `at`, as a row."""
    return clean(
        {
            "deployment": deployment,
            "fingerprint": finding.id,
            "at": at,
            "present": present,
            "check": finding.check,
            "severity": finding.severity.value,
            "confidence": finding.confidence,
            "summary": finding.summary,
            "seconds_per_request": finding.impact.seconds_per_request,
            "share_of_latency": finding.impact.share_of_latency,
            "share_of_requests_failed": finding.impact.share_of_requests_failed,
            "caused_by": finding.caused_by,
        }
    )
