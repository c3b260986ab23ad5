"""What each worker of a fleet last reported of its deployments: one row a worker, in the database that all share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from sqlalchemy import select

from diagnostics.store.database import Database
from diagnostics.store.statements import upsert
from diagnostics.store.tables import workers

# A report of a thousand deployments has some hundred kilobytes.
MOST_BYTES = 16 * 2**20
MOST_WORKERS = 1_000


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker reported at Unix second `at`, as it wrote it."""

    worker: int
    at: float
    body: bytes


class WorkerReports:
    """Writes one's own report, and reads all; both raise `sqlalchemy.exc.SQLAlchemyError` without the database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, report: WorkerReport) -> None:
        """Write a report instead of the worker's last one."""
        row = {"worker": report.worker, "at": report.at, "body": zlib.compress(report.body, 6)}
        with self._database.engine.begin() as connection:
            upsert(connection, workers, [row])

    def read(self) -> list[WorkerReport]:
        """Return the last report of each worker, by number; those that cannot be unpacked are left out."""
        with self._database.engine.connect() as connection:
            rows = connection.execute(select(workers).order_by(workers.c.worker).limit(MOST_WORKERS)).mappings()
            found = [(row["worker"], row["at"], _unpacked(row["body"])) for row in rows]
        return [WorkerReport(worker, at, body) for worker, at, body in found if body is not None]


def _unpacked(body: bytes) -> bytes | None:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(body, MOST_BYTES)
    except zlib.error:
        return None
    return found if unpacker.eof else None
