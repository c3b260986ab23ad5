"""Everything that is written, as functions of a connection in a transaction; each may be repeated after a failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from sqlalchemy import Connection, Executable, Table, delete, exists, func, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from diagnostics.diagnosis.incident import Incident
from diagnostics.store.downsample import Minute, SeriesKey
from diagnostics.store.rows import Row, row_of, text
from diagnostics.store.tables import findings, incidents, reports, segments, series, signals, verdicts

Apply = Callable[[Connection], None]
HOUR = 3600
# Rows of a statement: both databases limit a statement's parameters.
_BATCH = 1_000


def put_incident(incident: Incident) -> Apply:
    """Write an incident as it stands now; its id tells whether it is known."""
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
