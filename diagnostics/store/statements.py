"""A few signals of each model, minute by minute: what a timeline shows long after the bodies are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, Executable, Table, delete, exists, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from diagnostics.diagnosis.incident import Incident
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS, FAILED_SHARE
from diagnostics.signals.signal import Scope, Signal, Subject
from diagnostics.signals.tails import REQUEST_P95
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS
from diagnostics.store.tables import (
    Row,
    findings,
    incidents,
    reports,
    row_of,
    segments,
    series,
    signals,
    text,
    verdicts,
)

KEPT: Mapping[str, Signal] = {
    signal.name: signal
    for signal in (
        REQUEST_RATE,
        QUEUE_SECONDS,
        REQUEST_SECONDS,
        REQUEST_P95,
        INSTANCE_BUSY_SHARE,
        BATCH_SIZE,
        FAILED_REQUESTS,
        FAILED_SHARE,
    )
}
MINUTE = 60
# Readings are taken over spans of at least this many seconds: each costs processor time, and short ones show little.
_SPAN = 28.0
# Pages and statistics of one round are read within less of each other.
_ROUND = 1.0
SeriesKey = tuple[str, str, str, str]
"""Server, model, version, signal."""


@dataclass(slots=True)
class Minute:
    """The readings of one signal within one minute."""

    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")
    count: int = 0

    def add(self, value: float) -> None:
        """Take one reading."""
        self.total += value
        self.low, self.high = min(self.low, value), max(self.high, value)
        self.count += 1


@dataclass(slots=True)
class Downsampler:
    """The minute that a deployment is in. Models without requests leave none behind."""

    minute: int | None = None
    readings: dict[SeriesKey, Minute] = field(default_factory=dict)
    _read_to: dict[str, float] = field(default_factory=dict)

    def add(self, evidence: Evidence, at: float) -> tuple[int, Mapping[SeriesKey, Minute]] | None:
        """Read what came since the last time; return the minute that is over with its readings, None while none is.

        Args:
            evidence: of the window that ends now.
            at: Unix seconds of now.

        """
        over = self.over(int(at) // MINUTE * MINUTE)
        for server in evidence.subjects(Scope.SERVER):
            span = self._span(server.server, evidence.moments(server.server))
            if span is not None:
                for key, value in _readings(evidence, server.server, span):
                    self.readings.setdefault(key, Minute()).add(value)
        return over

    def over(self, minute: int | None = None) -> tuple[int, Mapping[SeriesKey, Minute]] | None:
        """Go on to another minute; return the one before with its readings, None where there were none."""
        if minute is not None and minute == self.minute:
            return None
        before, readings = self.minute, self.readings
        self.minute, self.readings = minute, {}
        return (before, readings) if before is not None and readings else None

    def _span(self, server: str, moments: Sequence[float]) -> tuple[float, float] | None:
        """Return from when to when a server is to be read now: since the last time, but no longer than a minute."""
        if len(moments) < 2:
            return None
        newest, before = moments[-1], self._read_to.get(server)
        if before is None or not moments[0] <= before <= newest:
            before = moments[-2]
            self._read_to[server] = before
        if newest - before < _SPAN:
            return None
        self._read_to[server] = newest
        return max(before, newest - MINUTE) - _ROUND, newest + _ROUND


def _readings(evidence: Evidence, server: str, span: tuple[float, float]) -> Iterator[tuple[SeriesKey, float]]:
    for scope in (Scope.MODEL, Scope.ENSEMBLE):
        for subject in evidence.subjects(scope):
            if subject.server == server:
                yield from _of(evidence, subject, span)


def _of(evidence: Evidence, subject: Subject, span: tuple[float, float]) -> Iterator[tuple[SeriesKey, float]]:
    if not evidence.read(REQUEST_RATE, subject, span).value and not evidence.read(FAILED_REQUESTS, subject, span).value:
        return
    model = subject.model or subject.ensemble or ""
    for name, signal in KEPT.items():
        value = evidence.read(signal, subject, span).value
        if value is not None:
            yield (subject.server, model, subject.version or "", name), value


Apply = Callable[[Connection], None]
HOUR = 3600
# Rows of a statement: both databases limit a statement's parameters.
_BATCH = 1_000


def put_incident(incident: Incident) -> Apply:
    """Write an incident as it stands now; its id shows whether it is known."""
    row = row_of(incident)
    return lambda connection: upsert(connection, incidents, [row])


def put_report(incident: str, at: float, body: bytes) -> Apply:
    """Write what was said at an incident's worst moment, instead of what was before."""
    row = {"incident": incident, "at": at, "body": body}

    def apply(connection: Connection) -> None:
        if connection.scalar(select(incidents.c.id).where(incidents.c.id == incident)) is not None:
            upsert(connection, reports, [row])

    return apply


def add_findings(rows: Sequence[Row]) -> Apply:
    """Write changes of findings."""
    return lambda connection: _run(connection, insert(findings), rows)


def add_verdict(row: Row) -> Apply:
    """Write one verdict."""
    return lambda connection: _run(connection, insert(verdicts), [row])


def add_signals(deployment: str, minute: int, readings: Mapping[SeriesKey, Minute]) -> Apply:
    """Write one minute of a deployment; readings of a minute that is there already are added to it."""

    def apply(connection: Connection) -> None:
        ids = _series(connection, deployment, readings)
        known = _minute(connection, minute, list(ids.values()))
        rows = [_merged(ids[key], minute, one, known.get(ids[key])) for key, one in readings.items()]
        upsert(connection, signals, rows)

    return apply


def set_segments(rows: Sequence[Row], owns: Callable[[str], bool] = lambda _: True) -> Apply:
    """Write which files of recorded bodies of the deployments that are owned there are: exactly these."""

    def apply(connection: Connection) -> None:
        listed = connection.execute(select(segments.c.path, segments.c.deployment))
        known = {path for path, deployment in listed if owns(deployment)}
        gone = known - {row["path"] for row in rows}
        for paths in _batches(sorted(gone)):
            connection.execute(delete(segments).where(segments.c.path.in_(paths)))
        upsert(connection, segments, [row for row in rows if row["path"] not in known])

    return apply


def forget(before: float, minutes_before: float) -> Apply:
    """Delete what ended before Unix second `before`, and turn minutes before `minutes_before` into hours."""

    def apply(connection: Connection) -> None:
        _into_hours(connection, int(minutes_before) // HOUR * HOUR)
        connection.execute(delete(signals).where(signals.c.at < before))
        connection.execute(delete(findings).where(findings.c.at < before))
        connection.execute(delete(verdicts).where(verdicts.c.at < before))
        connection.execute(delete(incidents).where(incidents.c.closed < before))
        used = exists().where(signals.c.series == series.c.id)
        connection.execute(delete(series).where(~used))

    return apply


def upsert(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, replacing those with the same primary key."""
    if not rows:
        return
    made = _upserting(connection.dialect.name, table, tuple(rows[0]))
    for batch in _batches(rows):
        connection.execute(made, batch)


@cache
def _upserting(dialect: str, table: Table, columns: tuple[str, ...]) -> Executable:
    """Return the statement, made once: making it costs as much as executing it."""
    made: Any = (postgresql if dialect == "postgresql" else sqlite).insert(table)
    keys = [column.name for column in table.primary_key]
    fresh = {name: made.excluded[name] for name in columns if name not in keys}
    return cast(Executable, made.on_conflict_do_update(index_elements=keys, set_=fresh))


def _series(connection: Connection, deployment: str, keys: Mapping[SeriesKey, Minute]) -> dict[SeriesKey, int]:
    """Return the ids of series, made where they are new."""
    columns = (series.c.server, series.c.model, series.c.version, series.c.signal)
    query = select(series.c.id, *columns).where(series.c.deployment == text(deployment))
    wanted = {tuple(map(text, key)): key for key in keys}

    def known() -> dict[tuple[str, ...], int]:
        return {tuple(row[1:]): row[0] for row in connection.execute(query)}

    have = known()
    names = [column.name for column in columns]
    fresh = [
        {"deployment": text(deployment), **dict(zip(names, key, strict=True))} for key in wanted if key not in have
    ]
    if fresh:
        connection.execute(insert(series), fresh)
        have = known()
    return {key: have[stored] for stored, key in wanted.items()}


def _minute(connection: Connection, minute: int, ids: Sequence[int]) -> dict[int, Any]:
    found: dict[int, Any] = {}
    for some in _batches(ids):
        query = select(signals).where(signals.c.seconds == 60, signals.c.at == minute, signals.c.series.in_(some))
        found |= {row.series: row for row in connection.execute(query)}
    return found


def _merged(identity: int, minute: int, one: Minute, before: Any) -> Row:
    count, total, low, high = one.count, one.total, one.low, one.high
    if before is not None:
        count, total = count + before.count, total + before.mean * before.count
        low, high = min(low, before.low), max(high, before.high)
    row = {"series": identity, "seconds": 60, "at": minute, "mean": total / count, "low": low, "high": high}
    return row | {"count": count}


def _into_hours(connection: Connection, before: int) -> None:
    old = (signals.c.seconds == 60, signals.c.at < before)
    hour = (signals.c.at - signals.c.at % HOUR).label("hour")
    count = func.sum(signals.c.count)
    query = (
        select(
            signals.c.series,
            hour,
            (func.sum(signals.c.mean * signals.c.count) / count).label("mean"),
            func.min(signals.c.low).label("low"),
            func.max(signals.c.high).label("high"),
            count.label("count"),
        )
        .where(*old)
        .group_by(signals.c.series, hour)
    )
    rows = [
        {"series": r.series, "seconds": HOUR, "at": r.hour, "mean": r.mean, "low": r.low, "high": r.high}
        | {"count": int(r[5])}
        for r in connection.execute(query)
    ]
    upsert(connection, signals, rows)
    connection.execute(delete(signals).where(*old))


def _run(connection: Connection, statement: Any, rows: Sequence[Row]) -> None:
    connection.execute(statement, rows)


def _batches(rows: Sequence[Any]) -> list[list[Any]]:
    return [list(rows[start : start + _BATCH]) for start in range(0, len(rows), _BATCH)]
