from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, Table, create_engine, insert, select

from diagnostics.errors import CollectError
from diagnostics.settings.tree import HistorySettings
from diagnostics.store import statements
from diagnostics.store.database import Database, migrate, url_of
from diagnostics.store.digest import Rank, Write
from diagnostics.store.statements import Minute
from diagnostics.store.tables import incident_of, incidents, metadata, row_of, signals, verdicts
from diagnostics.store.writer import Pending
from tests.sinks.incidents import incident

DAY = 86400


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(url_of(HistorySettings(directory=tmp_path), None), lambda _: None)


def test_the_migrations_make_the_tables_that_queries_name(database: Database) -> None:
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_migrating_again_changes_nothing(database: Database) -> None:
    for _ in range(2):
        with database.engine.begin() as connection:
            migrate(connection, "here")
            connection.execute(insert(verdicts), {"deployment": "d", "at": 1.0, "verdict": "idle", "reason": ""})
    with database.engine.connect() as connection:
        assert len(connection.execute(select(verdicts)).all()) == 2


def test_incidents_of_the_first_schema_are_there_after_all_steps(tmp_path: Path) -> None:
    url, old = url_of(HistorySettings(directory=tmp_path), None), row_of(incident())
    del old["ending"]
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate(connection, "here", "0001")
        connection.execute(insert(Table("incidents", MetaData(), autoload_with=connection)), old)
    engine.dispose()
    with Database(url, lambda _: None).engine.connect() as connection:
        (row,) = connection.execute(select(incidents)).mappings()
    assert incident_of(row) == incident()


def test_the_file_is_in_wal_mode_with_foreign_keys(database: Database) -> None:
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 1


def test_a_migration_that_is_cut_short_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, whole = url_of(HistorySettings(directory=tmp_path), None), command.upgrade

    def cut(*arguments: object) -> None:
        whole(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(command, "upgrade", cut)
        with pytest.raises(KeyboardInterrupt):
            Database(url, lambda _: None)
    with sqlite3.connect(tmp_path / "history.db") as connection:
        assert connection.execute("SELECT * FROM sqlite_master").fetchall() == []
    assert Database(url, lambda _: None).dialect == "sqlite"


def test_minutes_become_hours_and_what_is_too_old_is_forgotten(database: Database) -> None:
    key = ("s", "m", "1", "request_rate")
    with database.engine.begin() as connection:
        for minute in range(0, 5 * DAY, 1200):
            reading = Minute()
            for value in (1.0, 3.0):
                reading.add(value)
            statements.add_signals("d", minute, {key: reading})(connection)
        rows = [{"deployment": "d", "at": at, "verdict": "idle", "reason": ""} for at in (1, 4e5)]
        connection.execute(insert(verdicts), rows)
        statements.forget(1.0 * DAY, 3.0 * DAY)(connection)
        rows = connection.execute(select(signals).order_by(signals.c.at)).all()
        assert {row.seconds for row in rows if row.at < 3 * DAY} == {3600}
        assert {row.seconds for row in rows if row.at >= 3 * DAY} == {60}
        assert rows[0].at == DAY
        assert (rows[0].mean, rows[0].low, rows[0].high, rows[0].count) == (2.0, 1.0, 3.0, 6)
        assert len(connection.execute(select(verdicts)).all()) == 1


def test_readings_of_a_minute_that_is_known_are_added_to_it(database: Database) -> None:
    key = ("s", "m", "1", "request_rate")
    with database.engine.begin() as connection:
        for value in (1.0, 5.0):
            reading = Minute()
            reading.add(value)
            statements.add_signals("d", 60, {key: reading})(connection)
        (row,) = connection.execute(select(signals)).all()
    assert (row.mean, row.low, row.high, row.count) == (3.0, 1.0, 5.0, 2)


def test_signals_are_let_fall_first_and_incidents_last() -> None:
    pending = Pending(3)
    writes = {name: Write(rank, lambda _: None) for name, rank in zip("svi", reversed(Rank), strict=True)}
    kept = [pending.add(writes[name]) for name in "ssvivii"]
    assert kept == [True, True, True, False, False, False, False]
    assert [write.rank for write in pending.batch(9)] == [Rank.INCIDENT] * 3


def test_a_database_that_is_out_of_reach_for_a_while_is_not_begun_anew(tmp_path: Path) -> None:
    directory, elsewhere, reported = tmp_path / "history", tmp_path / "elsewhere", list[BaseException]()
    directory.mkdir()
    database = Database(url_of(HistorySettings(directory=directory), None), reported.append)
    directory.rename(elsewhere)
    directory.write_text("nothing can be opened below a file")
    gone = database.gone()
    assert gone is not None
    with pytest.raises(CollectError, match="cannot be opened"):
        database.begin_anew(gone)

    directory.unlink()
    elsewhere.rename(directory)

    assert database.gone() is None
    assert not reported
    with database.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM incidents").scalar() == 0


def test_a_damaged_file_in_the_place_of_the_database_is_set_aside(tmp_path: Path) -> None:
    file, reported = tmp_path / "history.db", list[BaseException]()
    database = Database(url_of(HistorySettings(directory=tmp_path), None), reported.append)
    for kept in tmp_path.iterdir():
        kept.unlink()
    file.write_bytes(b"nonsense" * 512)
    gone = database.gone()
    assert gone is not None

    database.begin_anew(gone)

    assert database.gone() is None
    assert len(reported) == len(list(tmp_path.glob("history.db.damaged-*"))) == 1
