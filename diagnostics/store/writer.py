"""Writes verdicts and incidents into the database, in a thread of its own; waits out a database that is away."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Sequence
from itertools import islice

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from diagnostics.errors import DiagError
from diagnostics.store import statements
from diagnostics.store.database import QUEUE, Database, Meters, WriteErrors, is_damage, is_passing
from diagnostics.store.digest import Digest, Judged, Rank, Write

log = logging.getLogger(__name__)
# Some hours of a small deployment, some minutes of two hundred; a row's worth each.
MOST_PENDING = 20_000
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
# What is written in one transaction.
_BATCH = 500
_PATIENCE = 0.5
# A database that is away is noticed within so many seconds, whether or not there is something to write.
SECONDS_BETWEEN_CALLS = 5.0
WHAT = "writing the history"


class Pending:
    """What waits to be written: incidents first, then verdicts, then signals; let fall in the reverse order."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._queues: dict[Rank, deque[Write]] = {rank: deque() for rank in Rank}

    def __len__(self) -> int:
        """Return how much waits."""
        return sum(map(len, self._queues.values()))

    def add(self, write: Write) -> bool:
        """Take one; False when another, the oldest of the least worth, was let fall for it."""
        self._queues[write.rank].append(write)
        if len(self) <= self._most:
            return True
        least = next(rank for rank in reversed(Rank) if self._queues[rank])
        self._queues[least].popleft()
        return False

    def batch(self, most: int) -> list[Write]:
        """Take out what is to be written next."""
        ranked = (queue for queue in self._queues.values() for _ in range(len(queue)))
        return [queue.popleft() for queue in islice(ranked, most)]

    def put_back(self, batch: Sequence[Write]) -> None:
        """Keep on with what was not written."""
        for write in reversed(batch):
            self._queues[write.rank].appendleft(write)


class Writer:
    """Takes verdicts from any thread. They are digested at once: none waits with its window for a slow database."""

    def __init__(self, database: Database, digest: Digest, meters: Meters, trouble: WriteErrors) -> None:
        self._database, self._digest, self._meters, self._trouble = database, digest, meters, trouble
        self._digesting = threading.Lock()
        self._pending = Pending(MOST_PENDING)
        self._pause, self._retry_at, self._called = FIRST_PAUSE, float("-inf"), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="history-sql", daemon=True)
        # How much was put among what is pending, and how much of this is in the database. All behind one lock.
        self._taken = self._written = 0
        self._failing = self._stopped = False
        self._progress = threading.Condition()

    def enqueue(self, item: Judged | Write) -> None:
        """Queue a verdict or something else to write."""
        self._add([item] if isinstance(item, Write) else self._digested(item))

    def settle(self, patience: float) -> None:
        """Wait until all that was queued so far is in the database; at most `patience` seconds, not while it fails."""
        with self._progress:
            wanted = self._taken
            self._progress.wait_for(lambda: self._written >= wanted or self._failing, patience)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write what waits; what a database that is away does not take is lost, and counted."""
        with self._progress:
            self._stopped = True
            self._progress.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while self._is_going():
            if time.monotonic() >= self._retry_at:
                self.flush()
            self._meters.queue_length.labels(f"{QUEUE}-database").set(len(self._pending))
        with self._digesting:
            rest = list(self._digest.rest())
        self._add(rest)
        self.flush()
        if len(self._pending):
            self._trouble.drop(len(self._pending))

    def _is_going(self) -> bool:
        """Wait until there is something to do, or for a moment; False when it is time to end."""
        with self._progress:
            self._progress.wait_for(lambda: self._stopped or self._may_write(), _PATIENCE)
            return not self._stopped

    def _may_write(self) -> bool:
        return len(self._pending) > 0 and time.monotonic() >= self._retry_at

    def _digested(self, verdict: Judged) -> Sequence[Write]:
        try:
            with self._digesting:
                return list(self._digest.apply(verdict))
        except Exception as error:
            self._trouble.drop()
            self._trouble.report("summing up a verdict", error)
            log.debug("summing up a verdict", exc_info=True)
            return ()

    def _add(self, writes: Sequence[Write]) -> None:
        with self._progress:
            dropped = sum(not self._pending.add(write) for write in writes)
            self._taken += len(writes)
            self._progress.notify_all()
        if dropped:
            self._trouble.drop(dropped)

    def flush(self) -> None:
        """Write all that waits; when the database does not take it, wait longer and longer before the next attempt."""
        try:
            if (gone := self._database.gone()) is not None:
                self._begin_anew(gone)
            while batch := self._next():
                self._try(batch)
            if time.monotonic() - self._called >= SECONDS_BETWEEN_CALLS:
                self._call()
        except SQLAlchemyError as error:
            self._trouble.report(WHAT, error)
            if is_damage(error):
                self._begin_anew(error)
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _next(self) -> list[Write]:
        """Take out what is to be written next; where there is nothing, all that was queued is in the database."""
        with self._progress:
            batch = self._pending.batch(_BATCH)
            if not batch:
                self._failing, self._written = False, self._taken
                self._progress.notify_all()
            return batch

    def _try(self, batch: list[Write]) -> None:
        try:
            self._write(batch)
        except SQLAlchemyError:
            with self._progress:
                self._pending.put_back(batch)
                self._failing = True
                self._progress.notify_all()
            raise
        self._answered()

    def _call(self) -> None:
        with self._database.engine.connect() as connection:
            connection.execute(select(1))
        self._answered()

    def _answered(self) -> None:
        self._pause, self._called = FIRST_PAUSE, time.monotonic()
        self._trouble.over(WHAT)

    def _write(self, batch: list[Write]) -> None:
        try:
            with self._database.engine.begin() as connection:
                for write in batch:
                    write.apply(connection)
        except DBAPIError as error:
            if is_passing(error) or is_damage(error):
                raise
            self._one_by_one(batch)

    def _one_by_one(self, batch: list[Write]) -> None:
        """Write each for itself, so that one that the database refuses does not hold up the others for ever."""
        for write in batch:
            try:
                with self._database.engine.begin() as connection:
                    write.apply(connection)
            except DBAPIError as error:
                if is_passing(error) or is_damage(error):
                    raise
                self._trouble.drop()
                self._trouble.report(WHAT, error)

    def _begin_anew(self, error: BaseException) -> None:
        try:
            self._database.begin_anew(error)
        except DiagError as again:
            self._trouble.report(WHAT, again)
            return
        self._pause = FIRST_PAUSE  # what held it up before is over: open incidents are missing until the next attempt
        with self._digesting:
            last = list(self._digest.open.values())
        self._add([Write(Rank.INCIDENT, statements.put_incident(incident)) for incident in last])
