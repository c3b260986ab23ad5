"""The service's memory: bodies on disk, what was made of them in a database."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError
from diagnostics.settings.tree import HistorySettings
from diagnostics.slo.bins import Bins
from diagnostics.slo.slo import Slo
from diagnostics.store import raw, slo_events, statements
from diagnostics.store.database import Meters, WriteErrors, database_of, open_patiently
from diagnostics.store.digest import Digest, Judged, Rank, Write
from diagnostics.store.journal import JournalEntry, forget_journal, put_entry, read_journal
from diagnostics.store.packing import Packer
from diagnostics.store.reader import MOST_ROWS, HistoryReader
from diagnostics.store.recorder import Recorder
from diagnostics.store.tables import Row, incident_of, incidents
from diagnostics.store.workers import WorkerReports
from diagnostics.store.writer import Writer
from diagnostics.wire.records import Scrape

log = logging.getLogger(__name__)
# How long a database that is away is waited for at the start.
PATIENCE = 30.0
# Minutes of signals become hours after as long as people look at single minutes.
MINUTES_KEPT = 86400.0
SECONDS_BETWEEN_CLEANUPS = 3600.0


class History:
    """Remembers scrapes and verdicts. `take` and `take_scrape` return at once, from any thread.

    Attributes:
        reader: answers questions about the past.
        workers: what the workers of a fleet report of themselves.

    """

    def __init__(
        self,
        settings: HistorySettings,
        meters: Meters,
        *,
        read_secret: Callable[[Path, str], str],
        patience: float = PATIENCE,
        owns: Callable[[str], bool] = lambda _: True,
    ) -> None:
        """Open the history: what an earlier run left can be asked for at once, nothing is written before `start`.

        Args:
            settings: where, and how much to keep.
            meters: the service's own metrics.
            read_secret: reads the password's file.
            patience: seconds that PostgreSQL is waited for.
            owns: whether a deployment is this worker's; others write into the same database about theirs.

        Raises:
            UsageError: the database's URL cannot be used, or it was written by a newer version.
            CollectError: the directory or the database cannot be opened.

        """
        self._settings, self._trouble, self._owns = settings, WriteErrors(meters), owns
        make_directory(settings.directory)
        url = database_of(settings, read_secret)
        self._database = open_patiently(
            url, lambda error: self._trouble.report("opening the database", error), patience
        )
        self._digest = Digest()
        self._digest.restore(self._open())
        self._writer = Writer(self._database, self._digest, meters, self._trouble)
        self._recorder = Recorder(settings.directory, settings.segment, meters, self._trouble, self._closed)
        self._packer = Packer(settings, self._trouble, self._passed)
        self._listed: list[Row] = []
        self._cleaned = float("-inf")
        self.reader = HistoryReader(self._database, settings.directory)
        self.workers = WorkerReports(self._database)

    def start(self) -> None:
        """Begin to write."""
        for part in (self._writer, self._recorder, self._packer):
            part.start()

    def stop(self) -> None:
        """Finish all writes; what PostgreSQL does not take at once is lost, and counted."""
        self._database.hurry()
        for part in (self._recorder, self._packer, self._writer):
            part.stop()
        self._database.close()

    def consume(self, evaluation: Judged) -> None:
        """Remember a verdict."""
        self._writer.enqueue(evaluation)

    def put(self, apply: statements.Apply) -> None:
        """Write something else, as soon as the database takes it."""
        self._writer.enqueue(Write(Rank.SIGNALS, apply))

    def put_entry(self, entry: JournalEntry) -> None:
        """Remember what somebody did, before anything else that waits."""
        self._writer.enqueue(Write(Rank.INCIDENT, put_entry(entry)))

    def journal(self) -> Sequence[JournalEntry]:
        """Return what people did, in time order; nothing where it cannot be read."""
        try:
            with self._database.engine.connect() as connection:
                return read_journal(connection)
        except SQLAlchemyError as error:
            self._trouble.report("reading the journal", error)
            return ()

    def slo_events(self, slo: Slo, since: float) -> Mapping[str, Bins]:
        """Return an objective's events since Unix second `since`, by deployment of one's own.

        None where they cannot be read.
        """
        try:
            with self._database.engine.connect() as connection:
                found = slo_events.read_bins(connection, slo, since)
                return {name: bins for name, bins in found.items() if self._owns(name)}
        except SQLAlchemyError as error:
            self._trouble.report("reading the events of objectives", error)
            return {}

    def settle(self, patience: float) -> None:
        """Wait until all verdicts so far are in the database; at most `patience` seconds, and not while it fails."""
        self._writer.settle(patience)

    def consume_scrape(self, deployment: str, scrape: Scrape) -> None:
        """Remember a body, without the secrets in it."""
        self._recorder.record(deployment, scrape)

    def record_clean(self, deployment: str, scrape: Scrape) -> None:
        """Remember a body that whoever made it has kept free of secrets: searching it costs more than making it."""
        self._recorder.record(deployment, scrape, clean=True)

    def recent_scrapes(self, deployment: str, since: float) -> Sequence[Scrape]:
        """Return what was recorded since Unix second `since`, and what lasts; nothing where it cannot be read."""
        try:
            return raw.scrapes(self._settings.directory, deployment, since, time.time())
        except OSError as error:
            self._trouble.report("reading recorded bodies", error)
            return ()

    def open_incidents(self, deployment: str | None = None) -> Sequence[Incident]:
        """Return the incidents that last, those that an earlier run left open among them; None: of all deployments."""
        return [one for one in list(self._digest.open.values()) if deployment in (None, one.deployment)]

    def _open(self) -> list[Incident]:
        query = select(incidents).where(incidents.c.closed.is_(None)).limit(MOST_ROWS)
        try:
            with self._database.engine.connect() as connection:
                found = [incident_of(dict(row)) for row in connection.execute(query).mappings()]
                return [one for one in found if self._owns(one.deployment)]
        except SQLAlchemyError as error:
            self._trouble.report("reading open incidents", error)
            return []

    def _closed(self, left: Path | None) -> None:
        self._packer.notify(left)

    def _passed(self, now: float) -> None:
        """Bring the database in line with the files, and let it forget what is too old."""
        rows = [_row(name, one) for name, one in self._packed()]
        if rows != self._listed:
            self._listed = rows
            self._writer.enqueue(Write(Rank.SIGNALS, statements.set_segments(rows, self._owns)))
        if not 0 <= now - self._cleaned < SECONDS_BETWEEN_CLEANUPS:
            self._cleaned = now
            old, minutes = now - self._settings.keep_signals, now - MINUTES_KEPT
            self._writer.enqueue(Write(Rank.SIGNALS, statements.forget(old, minutes)))
            self.put(slo_events.forget(old, minutes))
            self.put(forget_journal(old))

    def _packed(self) -> list[tuple[str, raw.SegmentFile]]:
        directory = self._settings.directory
        names = raw.deployments(directory)
        return [(name, one) for name in names for one in raw.segments(raw.folder_of(directory, name)) if one.packed]


def _row(deployment: str, one: raw.SegmentFile) -> Row:
    try:
        size = one.path.stat().st_size
    except FileNotFoundError:
        size = 0
    return {
        "path": str(one.path),
        "deployment": deployment,
        "start": one.start,
        "end": one.end or one.start,
        "bytes": size,
    }


def make_directory(directory: Path) -> None:
    """Make the directory of a history where there is none.

    Raises:
        CollectError: it cannot be made.

    """
    try:
        (directory / raw.FOLDER).mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError as error:
        raise _not_made(directory, error) from None


def check_directory(directory: Path) -> None:
    """Check that the directory of a history can be made or written; nothing is left behind.

    Raises:
        CollectError: it cannot.

    """
    wanted = directory.absolute()
    try:
        there = next(each for each in (wanted, *wanted.parents) if each.exists())
        with tempfile.TemporaryDirectory(dir=there):
            return
    except OSError as error:
        raise _not_made(directory, error) from None


def _not_made(directory: Path, error: OSError) -> CollectError:
    what = f"cannot be made: {error.strerror or error}"
    return CollectError(what, where=str(directory), hint="name another: history.directory")
