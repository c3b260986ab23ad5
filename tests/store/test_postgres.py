from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import inspect
from sqlalchemy.exc import OperationalError

from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.store import database, writer
from diagnostics.store.history import History
from diagnostics.store.tables import metadata
from diagnostics.store.workers import WorkerReport
from tests.builders import SERVER
from tests.slo.kept import hours_keep_everything
from tests.store.lived import INTERVAL, NAME, deployment, live, opened, rounds, until, value
from tests.store.postgres import PASSWORD, Postgres, postgres

pytestmark = pytest.mark.live
COUNT = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with postgres() as running:
        yield running


def history(directory: Path, server: Postgres, metrics: OwnMetrics) -> History:
    secret = directory / "password"
    secret.write_text(PASSWORD)
    return opened(directory, metrics, database=server.url, database_password_file=secret)


def test_postgresql_remembers_all_that_sqlite_does_and_is_waited_for_when_it_is_away(
    tmp_path: Path, server: Postgres, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.5)
    metrics, begin = OwnMetrics(), time.time() - COUNT * INTERVAL
    made = history(tmp_path, server, metrics)
    engine = made.reader._database.engine
    columns = {name: {one["name"] for one in inspect(engine).get_columns(name)} for name in metadata.tables}
    assert columns == {name: {one.name for one in table.columns} for name, table in metadata.tables.items()}
    made.start()
    watched = deployment(metrics)
    # A name as a hostile server may give it.
    odd = replace(rounds(1, begin=begin)[0][0], name="a\0b", error="\0", body=None)
    made.consume_scrape(NAME, odd)
    verdicts = live(made, watched, rounds(COUNT, begin=begin))
    for _ in range(5):
        next(verdicts)
    until(lambda: len(made.reader.incidents()) == 1)

    server.stop()
    for _ in range(COUNT - 10):
        next(verdicts)
    until(lambda: value(metrics, "diag_errors_total", part="history") >= 2)
    server.start()
    evaluations = list(verdicts)
    made.stop()

    assert value(metrics, "diag_dropped_total", queue="history") == 0
    assert PASSWORD not in caplog.text
    again = history(tmp_path, server, OwnMetrics())
    assert [one.id for one in again.open_incidents(NAME)] == [one.id for one in watched.book.open]
    end = evaluations[-1].at
    reader = again.reader
    story = reader.incident(watched.book.open[0].id)
    assert story is not None
    assert story.report is not None
    assert [one.verdict for one in reader.verdicts(NAME, begin, end)][:2] == ["insufficient-data", "degraded"]
    minutes = reader.signals(NAME, "request_rate", begin, end, server=SERVER, model="slow")
    assert len(minutes) >= COUNT * INTERVAL / 60 - 1
    assert all(one.mean == pytest.approx(38, rel=0.01) for one in minutes)


def test_a_postgresql_that_takes_statements_and_never_answers_is_given_up(
    tmp_path: Path, server: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_ANSWER_SECONDS", 1.0)
    monkeypatch.setattr(database, "_LAST_ANSWER_SECONDS", 0.5)
    monkeypatch.setattr(database, "_CONNECT_SECONDS", 2)
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.5)
    metrics = OwnMetrics()
    made = history(tmp_path, server, metrics)
    made.start()
    watched = deployment(metrics)
    verdicts = live(made, watched, rounds(COUNT, begin=time.time() - COUNT * INTERVAL))
    next(verdicts)
    made.settle(5.0)
    known = made.reader.incidents()
    with server.standing_still():
        begun = time.monotonic()
        with pytest.raises(OperationalError):
            made.reader.incidents()
        assert time.monotonic() - begun < 10.0  # one connection's patience, and that of a new one
        for _ in range(5):
            next(verdicts)
        until(lambda: value(metrics, "diag_errors_total", part="history") >= 1)
    until(lambda: len(made.reader.incidents()) > len(known))
    next(verdicts)
    with server.standing_still():
        begun = time.monotonic()
        made.stop()
        assert time.monotonic() - begun < 15.0


def test_workers_of_a_fleet_that_start_together_on_an_empty_database_all_find_the_schema(
    tmp_path: Path, server: Postgres
) -> None:
    with psycopg.connect(server.url, password=PASSWORD, autocommit=True) as connection:
        connection.execute("CREATE DATABASE fleet")
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    url = server.url.replace("/postgres", "/fleet")
    with ThreadPoolExecutor(4) as together:
        folders = [tmp_path / str(number) for number in range(4)]
        made = together.map(lambda folder: opened(folder, database=url, database_password_file=secret), folders)
    assert [one.reader.incidents() for one in made] == [[]] * 4


def test_events_of_objectives_become_hours_in_postgresql_too(tmp_path: Path, server: Postgres) -> None:
    made = history(tmp_path, server, OwnMetrics())
    hours_keep_everything(made)
    made._database.close()


def test_workers_read_the_last_report_of_each_other(tmp_path: Path, server: Postgres) -> None:
    first, second = (history(tmp_path, server, OwnMetrics()).workers for _ in range(2))
    for at in (1.0, 2.0):
        first.put(WorkerReport(0, at, b"mine"))
        second.put(WorkerReport(1, at, b"yours"))

    assert second.read(2) == [WorkerReport(0, 2.0, b"mine"), WorkerReport(1, 2.0, b"yours")]
    assert second.read(1) == [WorkerReport(0, 2.0, b"mine")]
