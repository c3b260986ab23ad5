"""What each worker of a fleet last reported of its deployments: one row a worker, in the database that all share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from sqlalchemy import select, type_coerce
from sqlalchemy.types import NullType

from diagnostics.store.database import POSTGRESQL, Database
from diagnostics.store.statements import upsert
from diagnostics.store.tables import workers
from diagnostics.units import LATEST_SECOND

# A report of a thousand deployments has some hundred kilobytes.
MOST_BYTES = 16 * 2**20


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

    @property
    def shared(self) -> bool:
        """Whether processes on other machines may use the same database."""
        return self._database.dialect == POSTGRESQL

    def put(self, report: WorkerReport) -> None:
        """Write a report instead of the worker's last one."""
        row = {"worker": report.worker, "at": report.at, "body": zlib.compress(report.body, 6)}
        with self._database.engine.begin() as connection:
            upsert(connection, workers, [row])

    def read(self, count: int) -> list[WorkerReport]:
        """Return the last report of each worker below `count`, by number.

        Those that cannot be unpacked are left out, and those of a time that is none.
        """
        found = select(workers).where(workers.c.worker.between(0, count - 1)).order_by(workers.c.worker)
        # A column of SQLite holds any type: other versions, and people, write what is no number or no bytes.
        plain = found.with_only_columns(
            workers.c.worker, *(type_coerce(workers.c[one], NullType()) for one in ("at", "body"))
        )
        with self._database.engine.connect() as connection:
            rows = connection.execute(plain).all()
        return [
            WorkerReport(worker, float(at), body)
            for worker, at, packed in rows
            if isinstance(at, int | float) and 0 <= at <= LATEST_SECOND and (body := _unpacked(packed)) is not None
        ]


def _unpacked(body: object) -> bytes | None:
    if not isinstance(body, bytes | memoryview):
        return None
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(body, MOST_BYTES)
    except zlib.error:
        return None
    return found if unpacker.eof else None
