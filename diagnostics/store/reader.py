"""A moment of the past judged again, from the bodies that were recorded of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import BigInteger, ColumnElement, Double, Select, func, literal, select

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.objective import Objective
from diagnostics.store import raw
from diagnostics.store.database import Database
from diagnostics.store.journal import JournalEntry
from diagnostics.store.replay import explain_at
from diagnostics.store.tables import findings, incident_of, incidents, reports, series, signals, verdicts
from diagnostics.wire.records import Scrape

MOST_ROWS = 10_000
State = Literal["open", "closed", "any"]
Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChange:
    """How a finding stood from Unix second `at` on; `present` false: it was gone."""

    at: float
    present: bool
    severity: str
    confidence: float
    summary: str
    seconds_per_request: float
    share_of_latency: float
    share_of_requests_failed: float
    caused_by: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentStory:
    """An incident with its finding over time, its consequences, and what was said at its worst (a JSON report).

    `acknowledged` says who knows of it; None while nobody said so.
    """

    incident: Incident
    changes: tuple[FindingChange, ...]
    consequences: tuple[Incident, ...]
    report: Json | None
    report_at: float | None
    acknowledged: JournalEntry | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastVerdict:
    """What was said of a deployment from Unix second `at` on; `leading` is the fingerprint of its first finding."""

    at: float
    verdict: str
    reason: str
    layer: str | None
    leading: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """One signal's readings in the step that begins at Unix second `at`, in the signal's unit."""

    at: float
    mean: float
    low: float
    high: float
    count: int


class HistoryReader:
    """Queries; each opens and closes its own connection, and may be used from any thread.

    All raise `sqlalchemy.exc.DBAPIError` while the database is away, except those that read bodies alone.
    """

    def __init__(self, database: Database, directory: Path) -> None:
        self._database, self._directory = database, directory

    def incidents(
        self,
        *,
        state: State = "any",
        deployment: str | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int = 100,
    ) -> list[Incident]:
        """Return the incidents that lasted at some time in [since, until], Unix seconds, the newest first."""
        table = incidents.c
        wanted: list[ColumnElement[bool]] = []
        if state != "any":
            wanted.append(table.closed.is_(None) if state == "open" else table.closed.is_not(None))
        if deployment is not None:
            wanted.append(table.deployment == deployment)
        if since is not None:
            wanted.append(table.closed.is_(None) | (table.closed >= since))
        if until is not None:
            wanted.append(table.onset <= until)
        query = select(incidents).where(*wanted).order_by(table.opened.desc(), table.id)
        return [incident_of(row) for row in self._rows(query, limit)]

    def incident(self, identity: str, limit: int = 1_000) -> IncidentStory | None:
        """Return one incident with all that is known of it, its newest `limit` changes; None when there is none."""
        found = self._rows(select(incidents).where(incidents.c.id == identity), 1)
        if not found:
            return None
        incident = incident_of(found[0])
        caused = select(incidents).where(incidents.c.caused_by == identity).order_by(incidents.c.opened)
        stated = self._rows(select(reports).where(reports.c.incident == identity), 1)
        return IncidentStory(
            incident=incident,
            changes=tuple(self.findings(incident, limit)),
            consequences=tuple(incident_of(row) for row in self._rows(caused, limit)),
            report=json.loads(zlib.decompress(stated[0]["body"])) if stated else None,
            report_at=stated[0]["at"] if stated else None,
        )

    def findings(self, incident: Incident, limit: int = 1_000) -> list[FindingChange]:
        """Return how an incident's finding changed while it lasted, in time order."""
        table = findings.c
        wanted = [
            table.deployment == incident.deployment,
            table.fingerprint == incident.fingerprint,
            table.at >= min(incident.onset, incident.opened),
        ]
        if incident.closed is not None:
            wanted.append(table.at <= incident.closed)
        rows = self._rows(select(findings).where(*wanted).order_by(table.at.desc(), table.id.desc()), limit)
        return [FindingChange(**{name: row[name] for name in FindingChange.__slots__}) for row in reversed(rows)]

    def verdicts(self, deployment: str, start: float, end: float, limit: int = 2_000) -> list[PastVerdict]:
        """Return what was said in [start, end], Unix seconds, in time order; the newest `limit`."""
        table = verdicts.c
        query = select(verdicts).where(table.deployment == deployment, table.at >= start, table.at <= end)
        rows = self._rows(query.order_by(table.at.desc(), table.id.desc()), limit)
        return [PastVerdict(**{name: row[name] for name in PastVerdict.__slots__}) for row in reversed(rows)]

    def signals(
        self,
        deployment: str,
        signal: str,
        start: float,
        end: float,
        *,
        server: str,
        model: str,
        version: str | None = None,
        step: float = 60.0,
        limit: int = 2_000,
    ) -> list[Bucket]:
        """Return one signal of a model in steps of `step` seconds (at least 60), in time order; empty ones left out.

        `version` None takes all versions together. Signals are those of `store.downsample.KEPT`.
        """
        width = max(int(step), 60)
        about = series.c
        mine = [about.deployment == deployment, about.server == server, about.model == model, about.signal == signal]
        if version is not None:
            mine.append(about.version == version)
        at = (signals.c.at - signals.c.at % width).label("at")
        count = func.sum(signals.c.count).label("count")
        mean = (func.sum(signals.c.mean * signals.c.count) / count).label("mean")
        lowest, highest = func.min(signals.c.low).label("low"), func.max(signals.c.high).label("high")
        query = (
            select(at, mean, lowest, highest, count)
            .join(series, about.id == signals.c.series)
            # As the column's own type a second after 2038 is out of range, and no answer at all.
            .where(*mine, signals.c.at >= literal(int(start) // 60 * 60, BigInteger))
            .where(signals.c.at <= literal(end, Double))
            .group_by(at)
            .order_by(at)
        )
        return [Bucket(**{**row, "count": int(row["count"])}) for row in self._rows(query, limit)]

    def models(self, deployment: str, limit: int = 2_000) -> list[tuple[str, str, str]]:
        """Return the (server, model, version) of which there are signals."""
        columns = (series.c.server, series.c.model, series.c.version)
        query = select(*columns).where(series.c.deployment == deployment).distinct().order_by(*columns)
        return [(row["server"], row["model"], row["version"]) for row in self._rows(query, limit)]

    def scrapes(self, deployment: str, start: float, end: float) -> Sequence[Scrape]:
        """Return the bodies of [start, end], Unix seconds, and the newest before of what lasts."""
        return raw.scrapes(self._directory, deployment, start, end)

    def explain_at(
        self, deployment: str, at: float, since: float = 300.0, objective: Objective | None = None
    ) -> Explanation:
        """Return the verdict on the `since` seconds before Unix second `at`."""
        return explain_at(self._directory, deployment, at, since, objective)

    def _rows(self, query: Select[Any], limit: int) -> list[Json]:
        with self._database.engine.connect() as connection:
            rows = connection.execute(query.limit(max(0, min(limit, MOST_ROWS))))
            return [dict(row) for row in rows.mappings()]
