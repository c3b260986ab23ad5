"""What goes wrong while remembering: counted each time, logged once a minute, and survived."""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from prometheus_client import Counter, Gauge
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError

from diagnostics.errors import CollectError, UsageError, not_installed
from diagnostics.settings.tree import HistorySettings

log = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 60.0
PART = QUEUE = "history"


class WriteFaults(Protocol):
    """Keeps what fails until it works."""

    def failed(self, what: str, reason: str, part: str) -> None: ...
    def works(self, what: str) -> None: ...


class Meters(Protocol):
    """The part of the service's own metrics that the history writes to."""

    queue_length: Gauge
    dropped: Counter
    errors: Counter

    @property
    def faults(self) -> WriteFaults: ...


class WriteErrors:
    """Counts and logs failures. For use from several threads."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._reported: dict[str, float] = {}
        self._lock = threading.Lock()

    def report(self, what: str, error: BaseException) -> None:
        """Count a failure, and log it unless the same was logged within a minute.

        Args:
            what: what was being done, as in `recording chat`; one line of log a minute for each.
            error: why it failed; shown by its own words, never with the statement or the URL behind it.

        """
        self._meters.errors.labels(PART).inc()
        self._meters.faults.failed(what, reason_of(error), PART)
        now = time.monotonic()
        with self._lock:
            if now - self._reported.get(what, float("-inf")) < SECONDS_BETWEEN_LINES:
                return
            self._reported[what] = now
        log.warning("%s: %s", what, reason_of(error))

    def over(self, what: str) -> None:
        """Note that what failed works again, or still does."""
        self._meters.faults.works(what)

    def drop(self, count: int = 1) -> None:
        """Count what was let fall."""
        self._meters.dropped.labels(QUEUE).inc(count)


def reason_of(error: BaseException) -> str:
    """Return an error in one line: what the system or the database's driver said, no more."""
    stated = getattr(error, "orig", None) or error
    text = getattr(stated, "strerror", None) or str(stated) or type(stated).__name__
    return str(text).strip().split("\n", 1)[0][:200]


FILE = "history.db"
SQLITE, POSTGRESQL = "sqlite", "postgresql"
# A writer that waits for longer is stuck; PostgreSQL that does not answer counts as away.
_BUSY_SECONDS = 10
_CONNECT_SECONDS = 5
# Any number that nobody else locks in the same database.
_LOCK = 0x64696167
# The whole file is checked at the start where that takes no longer than a second or two.
_CHECKED_BYTES = 200 * 2**20
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STATEMENT_SECONDS = 30
_OPTIONS = f"-c statement_timeout={_STATEMENT_SECONDS * 1000} -c lock_timeout=10000"
# A server that lives has ended a statement by then. When the service ends, nobody waits that long for one that hangs.
_ANSWER_SECONDS, _LAST_ANSWER_SECONDS = _STATEMENT_SECONDS + 5.0, 5.0


class Database:
    """One engine, replaced when a damaged file was set aside.

    Attributes:
        engine: what queries use; ask again for each.
        url: where it is, with the password.

    """

    def __init__(self, url: URL, damaged: Callable[[BaseException], None]) -> None:
        """Open the database and bring it to the newest schema.

        Args:
            url: SQLite or PostgreSQL.
            damaged: called when a file cannot be used and is set aside.

        Raises:
            CollectError: it cannot be reached or written, or is of a newer version.

        """
        self.url, self._damaged = url, damaged
        self._path = Path(url.database or "")
        self._opened: tuple[int, int] | None = None
        self._patience = _ANSWER_SECONDS
        self.engine = self._engine()
        try:
            self._prepare()
        except DatabaseError as error:
            if not is_damage(error):
                raise self._unusable(error) from None
            self.begin_anew(error)

    @property
    def dialect(self) -> str:
        """Return `sqlite` or `postgresql`."""
        return self.engine.dialect.name

    @property
    def shown(self) -> str:
        """Return where it is, without the password, which its parameters may hold, too."""
        return self.url.set(query={}).render_as_string(hide_password=True)

    def gone(self) -> OSError | None:
        """Return why what is written would be lost, as the SQLite file was removed or replaced; None else."""
        if self.dialect != SQLITE or _identity(self._path) == self._opened:
            return None
        return FileNotFoundError(errno.ENOENT, "the file was removed or replaced while it was in use")

    def begin_anew(self, error: BaseException) -> None:
        """Begin an empty SQLite file; a damaged one is set aside, under a name with the time.

        Raises:
            CollectError: that is not possible.

        """
        damaged = is_damage(error)
        self.engine.dispose()
        try:
            if damaged:
                self._damaged(error)
                log.warning("the history's database was damaged and is kept as %s", _set_aside(self._path))
            self.engine = self._engine()
            self._prepare()
        except (OSError, DatabaseError) as again:
            if damaged or not is_damage(again):
                raise self._unusable(again) from None
            self.begin_anew(again)
        else:
            if not damaged:  # what was out of reach for a while, and is there again, was not begun anew
                self._damaged(error)

    def hurry(self) -> None:
        """Wait only briefly for PostgreSQL from now on, also for what it was asked before: the service ends."""
        self._patience = _LAST_ANSWER_SECONDS

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()

    def _engine(self) -> Engine:
        return _engine(self.url, lambda: self._patience)

    def _prepare(self) -> None:
        if self.dialect == SQLITE:
            self._check()
        with self.engine.begin() as connection:
            if self.dialect == POSTGRESQL:
                # Workers of a fleet start together: the first makes the schema, the others wait and find it.
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            migrate(connection, self.shown)
        self._opened = _identity(self._path)

    def _check(self) -> None:
        if not self._path.exists() or self._path.stat().st_size > _CHECKED_BYTES:
            return
        with self.engine.connect() as connection:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        if found != "ok":
            raise DatabaseError(None, None, _corrupt(str(found)))

    def _unusable(self, error: BaseException) -> CollectError:
        hint = "see history.database and history.directory"
        return CollectError(f"the history cannot be opened: {reason_of(error)}", where=self.shown, hint=hint)


def is_damage(error: BaseException) -> bool:
    """Return whether an error says that an SQLite file is damaged."""
    orig = getattr(error, "orig", None)
    code = getattr(orig, "sqlite_errorcode", None)
    return isinstance(orig, sqlite3.DatabaseError) and code is not None and code & 0xFF in _DAMAGED


def is_passing(error: BaseException) -> bool:
    """Return whether what failed may succeed later: the server is away, the disk full, the file locked."""
    return isinstance(error, OperationalError) or bool(getattr(error, "connection_invalidated", False))


def url_of(settings: HistorySettings, password: str | None) -> URL:
    """Return the database's URL.

    Raises:
        UsageError: it is none, or of a database that is not supported.

    """
    if not settings.database:
        return URL.create(SQLITE, database=str(settings.directory / FILE))
    try:
        url = make_url(settings.database)
    except (ArgumentError, ValueError):  # its port is no number
        hint = "write it like postgresql://diag@host/diag"
        raise UsageError("is no database URL", where="history.database", hint=hint) from None
    backend = url.get_backend_name()
    if backend not in (SQLITE, POSTGRESQL):
        raise UsageError(f"{backend} is not supported", where="history.database", hint="use sqlite or postgresql")
    if "@" in f"{url.host}{url.database}" and backend != SQLITE:
        hint = "write / ? # and @ of a password as %2F %3F %23 and %40, or use history.database_password_file"
        raise UsageError("holds an @ after the host", where="history.database", hint=hint)
    url = url.set(drivername="postgresql+psycopg" if backend == POSTGRESQL else SQLITE)
    return url.set(password=password) if password is not None else url


def named_file(settings: HistorySettings) -> Path | None:
    """Return the SQLite file that `history.database` names; None without one; raises as `url_of`."""
    url = url_of(settings, None)
    named = settings.database and url.get_backend_name() == SQLITE and url.database not in (None, "", ":memory:")
    return Path(str(url.database)) if named else None


def database_of(settings: HistorySettings, read_secret: Callable[[Path, str], str]) -> URL:
    """Return the database's URL with the password of its file; raises as `url_of` and `read_secret`."""
    file = settings.database_password_file
    return url_of(settings, read_secret(file, "database's password") if file else None)


def open_patiently(url: URL, damaged: Callable[[BaseException], None], patience: float) -> Database:
    """Return the database; one that is away is waited for, as incidents would lose their identity without it.

    Raises:
        CollectError: it did not come within `patience` seconds, or cannot be used.

    """
    deadline = time.monotonic() + patience
    reported = False
    while True:
        try:
            return Database(url, damaged)
        except CollectError as error:
            if url.get_backend_name() == SQLITE or time.monotonic() >= deadline:
                raise
            if not reported:
                log.warning("waiting for the database, at most %.0f s: %s", patience, error)
                reported = True
            time.sleep(min(1.0, max(0.0, deadline - time.monotonic())))


def migrate(connection: Connection, shown: str, revision: str = "head") -> None:
    """Bring a database to a revision of the schema.

    Raises:
        UsageError: it was made by a newer version.

    """
    logging.getLogger("alembic").setLevel(logging.WARNING)  # it tells of every look at the schema
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    current = MigrationContext.configure(connection).get_current_revision()
    known = {one.revision for one in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        hint = "update triton-diagnostics, or name another database"
        raise UsageError("the history was written by a newer version", where=shown, hint=hint)
    command.upgrade(config, revision)
    now = MigrationContext.configure(connection).get_current_revision()
    if now != current:
        log.info("the history's schema is now %s", now)


def _engine(url: URL, patience: Callable[[], float]) -> Engine:
    if url.get_backend_name() == SQLITE:
        Path(url.database or "").parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})
        event.listen(engine, "connect", _as_sqlite)
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
        return engine
    arguments = {"connect_timeout": _CONNECT_SECONDS, "options": _OPTIONS}
    try:
        from diagnostics.store.postgres import TimelyConnection

        engine = create_engine(url, pool_pre_ping=True, connect_args=arguments)
    except ModuleNotFoundError as error:
        raise not_installed(error, "postgresql", where="history.database") from None

    def connect(_: object, __: object, given: Sequence[Any], more: Mapping[str, Any]) -> TimelyConnection:
        made = TimelyConnection.connect(*given, **more)
        made.patience = patience
        return made

    event.listen(engine, "do_connect", connect)
    return engine


def _as_sqlite(connection: Any, _: object) -> None:
    # The driver's own transactions leave out changes of the schema; ours begin with BEGIN.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _set_aside(path: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    kept = path.with_name(f"{path.name}.damaged-{stamp}")
    path.rename(kept)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(kept.with_name(kept.name + suffix))
    return kept


def _corrupt(text: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(text)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
