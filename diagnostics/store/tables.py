"""What the database holds. Its schema is made by the migrations; this is the newest form, as queries name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from diagnostics.checks.check import Layer, Severity
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Ending, Incident
from diagnostics.signals.signal import Subject

metadata = MetaData()

# Names and values that belong to the database as a whole.
meta = Table("meta", metadata, Column("key", String(64), primary_key=True), Column("value", Text, nullable=False))

# Files of recorded bodies. Unix seconds; bytes as packed.
segments = Table(
    "segments",
    metadata,
    Column("path", Text, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("start", Double, nullable=False),
    Column("end", Double, nullable=False),
    Column("bytes", Integer, nullable=False),
    Index("segments_by_time", "deployment", "start"),
)

# One row per incident, as of its last change: the fields of `diagnosis.incident.Incident`.
incidents = Table(
    "incidents",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("deployment", Text, nullable=False),
    Column("check", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("layer", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("model", Text),
    Column("version", Text),
    Column("gpu", Text),
    Column("ensemble", Text),
    Column("severity", Text, nullable=False),
    Column("worst", Text, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("summary", Text, nullable=False),
    Column("onset", Double, nullable=False),
    Column("opened", Double, nullable=False),
    Column("seen", Double, nullable=False),
    Column("closed", Double),
    Column("ending", Text),
    Column("seconds_per_request", Double, nullable=False),
    Column("share_of_latency", Double, nullable=False),
    Column("share_of_requests_failed", Double, nullable=False),
    Column("peak", Double, nullable=False),
    Column("peak_at", Double, nullable=False),
    Column("caused_by", String(32)),
    Index("incidents_by_time", "deployment", "opened"),
    Index("incidents_open", "closed"),
)

# What was said when an incident was at its worst: a JSON report, deflated.
reports = Table(
    "reports",
    metadata,
    Column("incident", String(32), ForeignKey("incidents.id", ondelete="CASCADE"), primary_key=True),
    Column("at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

# One row per change of a finding; `present` false where it was gone.
findings = Table(
    "findings",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("at", Double, nullable=False),
    Column("present", Boolean, nullable=False),
    Column("check", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("confidence", Double, nullable=False),
    Column("summary", Text, nullable=False),
    Column("seconds_per_request", Double, nullable=False),
    Column("share_of_latency", Double, nullable=False),
    Column("share_of_requests_failed", Double, nullable=False),
    Column("caused_by", String(64)),
    Index("findings_by_time", "deployment", "fingerprint", "at"),
    Index("findings_by_age", "at"),
)

# One row per change of a verdict, and one every five minutes.
verdicts = Table(
    "verdicts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("at", Double, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("layer", Text),
    Column("leading", String(64)),
    Index("verdicts_by_time", "deployment", "at"),
    Index("verdicts_by_age", "at"),
)

# What a row of `signals` is about; `signal` is its name in `diagnostics.signals`.
series = Table(
    "series",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("deployment", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("signal", Text, nullable=False),
    UniqueConstraint("deployment", "server", "model", "version", "signal", name="series_once"),
)

# Readings of `seconds` from `at` on, in the signal's unit: their mean, least and greatest, and how many there were.
signals = Table(
    "signals",
    metadata,
    Column("series", Integer, ForeignKey("series.id", ondelete="CASCADE"), primary_key=True),
    Column("seconds", Integer, primary_key=True),
    Column("at", Integer, primary_key=True),
    Column("mean", Double, nullable=False),
    Column("low", Double, nullable=False),
    Column("high", Double, nullable=False),
    Column("count", Integer, nullable=False),
    Index("signals_by_age", "seconds", "at"),
    sqlite_with_rowid=False,
)

# Events of an objective in `seconds` from `at` on. `cause` is empty in the row of all events, else the fingerprint of a
# finding, with its check, server and model; its row's `bad` is what it took of theirs. `began` and `ended` are the Unix
# seconds between which they were counted; rows from before these were noted have none.
slo_events = Table(
    "slo_events",
    metadata,
    Column("slo", Text, primary_key=True),
    Column("definition", String(12), primary_key=True),
    Column("deployment", Text, primary_key=True),
    Column("cause", String(64), primary_key=True),
    Column("seconds", Integer, primary_key=True),
    Column("at", Integer, primary_key=True),
    Column("check", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("total", Double, nullable=False),
    Column("bad", Double, nullable=False),
    Column("low", Double, nullable=False),
    Column("high", Double, nullable=False),
    Column("began", Double),
    Column("ended", Double),
    Index("slo_events_by_age", "seconds", "at"),
    sqlite_with_rowid=False,
)

# What people did and entered: `diagnostics.store.journal.JournalEntry`.
journal = Table(
    "journal",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("at", Double, nullable=False),
    Column("action", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("deployment", Text, nullable=False),
    Column("incident", String(64), nullable=False),
    Column("start", Double, nullable=False),
    Column("end", Double),
    Column("kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Index("journal_by_time", "at"),
)

# What each worker of a fleet last reported: `diagnostics.store.workers.WorkerReport`, deflated.
workers = Table(
    "workers",
    metadata,
    Column("worker", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


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
