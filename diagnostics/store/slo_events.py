"""The events of objectives in the database: written by the minute, kept by the hour, read as they were counted."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, inspect, select

from diagnostics.diagnosis.incident import Incident
from diagnostics.slo.bins import HOUR, MINUTE, NOTHING, Bins, BudgetCause, EventBin, Tally
from diagnostics.slo.slo import Slo
from diagnostics.store.statements import Apply, upsert
from diagnostics.store.tables import Row, clean, incident_of, incidents, slo_events, text

_ALL = BudgetCause("", "", "", "")
_SUMMED = ("total", "bad", "low", "high")
_SAME = ("slo", "definition", "deployment", "cause")
_SPAN = ("began", "ended")


def put_minute(slo: Slo, deployment: str, at: int, found: EventBin) -> Apply:
    """Write what is known of one minute of an objective, instead of what was known before."""
    span = {"began": found.began, "ended": found.ended}
    rows = [_row(slo, deployment, at, _ALL, found.tally) | span]
    for cause, bad in found.causes.items():
        took = Tally(total=0.0, bad=bad, low=0.0, high=0.0, source="")
        rows.append(_row(slo, deployment, at, cause, took) | span)
    return lambda connection: upsert(connection, slo_events, rows)


def _row(slo: Slo, deployment: str, at: int, cause: BudgetCause, tally: Tally) -> Row:
    about = {"check": cause.check, "server": cause.server, "model": cause.model, "source": tally.source}
    counts = {name: getattr(tally, name) for name in _SUMMED}
    key = {"slo": slo.name, "definition": slo.definition, "deployment": deployment, "cause": cause.fingerprint}
    return clean({**key, "seconds": MINUTE, "at": at, **about, **counts})


def forget(before: float, minutes_before: float) -> Apply:
    """Delete what is older than Unix second `before`, and turn minutes before `minutes_before` into hours."""

    def apply(connection: Connection) -> None:
        _into_hours(connection, int(minutes_before) // HOUR * HOUR)
        connection.execute(delete(slo_events).where(slo_events.c.at < before))

    return apply


def _into_hours(connection: Connection, before: int) -> None:
    table = slo_events.c
    old = (table.seconds == MINUTE, table.at < before)
    # Not called `at`: PostgreSQL would group by the column of that name.
    hour = (table.at - table.at % HOUR).label("hour")
    same = [table[name] for name in _SAME]
    about = [func.max(table[name]).label(name) for name in ("check", "server", "model", "source")]
    sums = [func.sum(table[name]).label(name) for name in _SUMMED]
    span = [func.min(table.began).label("began"), func.max(table.ended).label("ended")]
    found = connection.execute(select(*same, hour, *about, *sums, *span).where(*old).group_by(*same, hour))
    # An hour is turned only once all of it is old: none is there yet.
    rows = [{**row, "seconds": HOUR, "at": row["hour"]} for row in found.mappings()]
    for row in rows:
        del row["hour"]
    upsert(connection, slo_events, rows)
    connection.execute(delete(slo_events).where(*old))


def read_bins(connection: Connection, slo: Slo, since: float, deployment: str | None = None) -> dict[str, Bins]:
    """Return an objective's events since Unix second `since`, by deployment.

    Events that were counted while something else was called by its name are left out; all are where the database is of
    a time before objectives.
    """
    known = inspect(connection)
    if not known.has_table(slo_events.name):
        return {}
    table = slo_events.c
    # Whoever only reads does not migrate.
    columns = [table[one["name"]] for one in known.get_columns(slo_events.name) if one["name"] in table]
    wanted = [table.slo == text(slo.name), table.definition == slo.definition, table.at >= since - HOUR]
    if deployment is not None:
        wanted.append(table.deployment == text(deployment))
    found: dict[str, Bins] = {}
    for row in connection.execute(select(*columns).where(*wanted)).mappings():
        bins = found.setdefault(row["deployment"], Bins())
        span = [row.get(name) for name in _SPAN]
        if row["cause"]:
            cause = BudgetCause(row["cause"], row["check"], row["server"], row["model"])
            bins.add(row["at"], NOTHING, {cause: row["bad"]}, row["seconds"], *span)
        else:
            counts = {name: row[name] for name in _SUMMED}
            bins.add(row["at"], Tally(**counts, source=row["source"]), {}, row["seconds"], *span)
    return found


def incidents_since(connection: Connection, since: float, most: int = 10_000) -> Sequence[Incident]:
    """Return the incidents that lasted at some time since Unix second `since`, the newest first."""
    table = incidents.c
    lasted = table.closed.is_(None) | (table.closed >= since)
    query = select(incidents).where(lasted).order_by(table.opened.desc()).limit(most)
    return [incident_of(dict(row)) for row in connection.execute(query).mappings()]
