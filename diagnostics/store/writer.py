"""Writes verdicts and incidents into the database, in a thread of its own; waits out a database that is away."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable
from queue import Empty, Full, Queue

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from diagnostics.errors import DiagError
from diagnostics.store import statements
from diagnostics.store.database import Database, is_damage, is_passing
from diagnostics.store.digest import Digest, Judged, Rank, Write
from diagnostics.store.trouble import QUEUE, Meters, Trouble

log = logging.getLogger(__name__)
# Verdicts hold their windows: only so many wait before they are turned into rows.
MOST_VERDICTS = 500
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
        """Return what is to be written next, and keep it until it is `done`."""
        return [write for rank in Rank for write in self._queues[rank]][:most]

    def done(self, batch: Iterable[Write]) -> None:
        """Let go of what was written."""
        for write in batch:
            self._queues[write.rank].popleft()


class Writer:
    """Takes verdicts from any thread."""

    def __init__(self, database: Database, digest: Digest, meters: Meters, trouble: Trouble) -> None:
        self._database, self._digest, self._meters, self._trouble = database, digest, meters, trouble
        self._inbox: Queue[Judged | Write | None] = Queue(MOST_VERDICTS)
        self._pending = Pending(MOST_PENDING)
        self._pause, self._retry_at, self._called = FIRST_PAUSE, float("-inf"), time.monotonic()
        self._thread = threading.Thread(target=self._run, name="history-sql", daemon=True)
        # How many items were queued, how many of these were digested, and how many of these are in the database.
        self._taken = self._digested = self._written = 0
        self._failing, self._progress = False, threading.Condition()

    def take(self, item: Judged | Write) -> None:
        """Queue a verdict or something else to write; dropped, and counted, when the queue is full."""
        with self._progress:
            try:
                self._inbox.put_nowait(item)
            except Full:
                self._trouble.drop()
            else:
                self._taken += 1

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
        self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        going = True
        while going:
            going = self._take_in()
            if time.monotonic() >= self._retry_at:
                self.flush()
                self._note_progress()
            self._meters.queue_length.labels(f"{QUEUE}-database").set(len(self._pending))
        self._add(self._digest.rest())
        self.flush()
        if len(self._pending):
            self._trouble.drop(len(self._pending))

    def _note_progress(self) -> None:
        with self._progress:
            self._failing = len(self._pending) > 0
            self._written = self._written if self._failing else self._digested
            self._progress.notify_all()

    def _take_in(self) -> bool:
        """Digest what arrived, at most a batch at once; False when it is time to end."""
        for number in range(_BATCH):
            try:
                item = self._inbox.get(timeout=_PATIENCE) if number == 0 else self._inbox.get_nowait()
            except Empty:
                return True
            if item is None:
                return False
            self._digested += 1
            try:
                self._add([item] if isinstance(item, Write) else self._digest.take(item))
            except Exception as error:
                self._trouble.drop()
                self._trouble.tell("summing up a verdict", error)
                log.debug("summing up a verdict", exc_info=True)
        return True

    def _add(self, writes: Iterable[Write]) -> None:
        for write in writes:
            if not self._pending.add(write):
                self._trouble.drop()

    def flush(self) -> None:
        """Write all that waits; when the database does not take it, wait longer and longer before the next attempt."""
        try:
            while batch := self._pending.batch(_BATCH):
                self._write(batch)
                self._pending.done(batch)
                self._answered()
            if time.monotonic() - self._called >= SECONDS_BETWEEN_CALLS:
                self._call()
        except SQLAlchemyError as error:
            self._trouble.tell(WHAT, error)
            if is_damage(error):
                self._begin_anew(error)
            self._retry_at = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

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
                self._trouble.tell(WHAT, error)

    def _begin_anew(self, error: BaseException) -> None:
        try:
            self._database.begin_anew(error)
        except DiagError as again:
            self._trouble.tell(WHAT, again)
            return
        for incident in self._digest.open.values():
            self._pending.add(Write(Rank.INCIDENT, statements.put_incident(incident)))
