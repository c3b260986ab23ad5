from __future__ import annotations

import shutil
import sqlite3
import time
from pathlib import Path
from weakref import ref

import pytest
from sqlalchemy import Connection, event

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.errors import CollectError, UsageError
from diagnostics.render.explanation.json import report
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import HistorySettings
from diagnostics.store import statements, writer
from diagnostics.store.database import Database, url_of
from diagnostics.store.digest import Rank, Write
from diagnostics.store.statements import KEPT
from tests.builders import SERVER
from tests.store.lived import INTERVAL, NAME, WINDOW, deployment, live, opened, rounds, until, value

COUNT = 40


def gist(explanation: Explanation) -> dict[str, object]:
    """What a report says, without the last digits of its numbers."""
    stated = report(explanation)
    shares = [round(finding["impact"]["share_of_latency"], 2) for finding in stated["findings"]]
    ids = [(finding["id"], finding["severity"], finding["caused_by"]) for finding in stated["findings"]]
    return {"verdict": stated["verdict"], "reason": stated["reason"], "ids": ids, "shares": shares}


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list, float]:  # type: ignore[type-arg]
    directory = tmp_path_factory.mktemp("history")
    begin = time.time() - COUNT * INTERVAL
    history = opened(directory, segment=120.0)
    history.start()
    evaluations = list(live(history, deployment(OwnMetrics()), rounds(COUNT, begin=begin)))
    history.stop()
    return directory, evaluations, begin


def test_every_moment_of_a_lived_window_replays_to_the_same_verdict(lived) -> None:
    directory, evaluations, _ = lived
    reader = opened(directory).reader
    for one in evaluations:
        assert gist(reader.explain_at(NAME, one.at, WINDOW)) == gist(one.explanation)
    assert {one.explanation.verdict.value for one in evaluations} >= {"degraded", "insufficient-data"}


def test_an_incident_keeps_its_identity_across_a_restart(lived) -> None:
    directory, evaluations, _ = lived
    (mine,) = {change.incident.id for one in evaluations for change in one.changes}
    again = opened(directory)
    (restored,) = again.open_incidents(NAME)
    assert restored == next(reversed(evaluations)).changes[0].incident
    assert restored.id == mine
    watched = deployment(OwnMetrics())
    watched.resume(again.recent_scrapes(NAME, evaluations[-1].at - WINDOW), [restored])
    assert [one.id for one in watched.book.open] == [mine]


def test_whoever_waits_for_the_history_finds_all_verdicts_so_far_in_it(tmp_path: Path) -> None:
    history = opened(tmp_path)
    history.start()
    watched = deployment(OwnMetrics())
    for _ in live(history, watched, rounds(6, begin=time.time() - 90)):
        history.settle(10.0)
        assert [one.id for one in history.reader.incidents()] == [one.id for one in watched.book.open]
    assert watched.book.open
    history.stop()


def test_no_verdict_waits_with_its_window_for_the_database(tmp_path: Path) -> None:
    history = opened(tmp_path)
    watched = deployment(OwnMetrics())
    windows = [ref(one.explanation.evidence) for one in live(history, watched, rounds(6, begin=time.time() - 90))]
    watched._last = None
    assert [window() for window in windows] == [None] * 6
    history.start()
    history.stop()
    assert [one.id for one in opened(tmp_path).open_incidents(NAME)] == [one.id for one in watched.book.open]


def test_an_incident_tells_its_story_with_the_report_of_its_worst_moment(lived) -> None:
    directory, evaluations, _ = lived
    reader = opened(directory).reader
    (incident,) = reader.incidents(state="open", deployment=NAME)
    story = reader.incident(incident.id)
    assert story is not None
    assert story.report is not None
    assert story.report["findings"][0]["id"] == incident.fingerprint
    assert story.changes[0].present
    # Nothing changed but the last digits: not a row per verdict.
    assert len(story.changes) < len(evaluations) / 4
    assert reader.incident("no-such-incident") is None


def test_incidents_are_found_by_state_and_time(lived) -> None:
    directory, evaluations, begin = lived
    reader = opened(directory).reader
    assert reader.incidents(state="closed") == []
    assert reader.incidents(until=begin - 1) == []
    assert reader.incidents(deployment="another") == []
    assert len(reader.incidents(since=evaluations[-1].at)) == 1
    assert reader.incidents(limit=0) == []


def test_verdicts_are_written_when_they_change_and_every_five_minutes(lived) -> None:
    directory, evaluations, begin = lived
    stated = opened(directory).reader.verdicts(NAME, begin, evaluations[-1].at)
    assert [one.verdict for one in stated] == ["insufficient-data", "degraded", "degraded"]
    assert stated[2].at - stated[1].at == pytest.approx(300.0)


def test_signals_are_kept_by_the_minute_and_requested_in_any_step(lived) -> None:
    directory, evaluations, begin = lived
    reader = opened(directory).reader
    requested = {"server": SERVER, "model": "slow"}
    minutes = reader.signals(NAME, "queue_seconds", begin, evaluations[-1].at, **requested)
    assert len(minutes) >= COUNT * INTERVAL / 60 - 1
    assert all(one.mean == pytest.approx(0.17, rel=0.01) for one in minutes)
    assert all(one.low <= one.mean <= one.high for one in minutes)
    (whole,) = reader.signals(NAME, "request_rate", begin, evaluations[-1].at, step=1e6, **requested)[-1:]
    assert whole.mean == pytest.approx(38, rel=0.01)
    for name in set(KEPT) - {"failed_requests", "request_seconds_p95"}:
        assert reader.signals(NAME, name, begin, evaluations[-1].at, **requested), name
    assert (SERVER, "slow", "1") in reader.models(NAME)


def test_a_database_of_a_newer_version_is_refused_in_one_line(tmp_path: Path) -> None:
    opened(tmp_path)
    with sqlite3.connect(tmp_path / "history.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UsageError, match=r"newer version") as error:
        opened(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("damage", ["text", "middle"])
def test_a_damaged_database_is_set_aside_and_a_new_one_begun(tmp_path: Path, damage: str) -> None:
    history = opened(tmp_path)
    history.start()
    history.stop()
    file, metrics = tmp_path / "history.db", OwnMetrics()
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(0 if damage == "text" else 4096)
        stream.write(b"nonsense" * ((size - 4096) // 8 if damage == "middle" else 100))
    history = opened(tmp_path, metrics)
    assert history.reader.incidents() == []
    assert len(list(tmp_path.glob("history.db.damaged-*"))) >= 1
    assert value(metrics, "diag_errors_total", part="history") == 1


def test_a_database_that_is_damaged_while_it_is_used_is_begun_anew_with_the_open_incidents(tmp_path: Path) -> None:
    metrics = OwnMetrics()
    history = opened(tmp_path, metrics)
    history.start()
    lived = rounds(12, begin=time.time() - 180)
    watched = deployment(metrics)
    verdicts = live(history, watched, lived)
    for _ in range(6):
        next(verdicts)
    until(lambda: len(history.reader.incidents()) == 1)
    for suffix in ("", "-wal"):
        file = tmp_path / f"history.db{suffix}"
        with file.open("r+b") as stream:
            stream.write(b"nonsense" * (file.stat().st_size // 8))
    history.reader._database.engine.dispose()
    list(verdicts)
    history.stop()
    assert list(tmp_path.glob("history.db.damaged-*"))
    assert value(metrics, "diag_errors_total", part="history") >= 1
    assert [one.id for one in opened(tmp_path).open_incidents(NAME)] == [one.id for one in watched.book.open]


def test_a_directory_that_is_removed_while_it_is_used_is_made_again_with_the_open_incidents(tmp_path: Path) -> None:
    metrics, directory = OwnMetrics(), tmp_path / "history"
    history = opened(directory, metrics)
    history.start()
    watched = deployment(metrics)
    verdicts = live(history, watched, rounds(8, begin=time.time() - 120))
    for _ in range(6):
        next(verdicts)
    until(lambda: len(history.reader.incidents()) == 1)
    shutil.rmtree(directory)
    list(verdicts)
    history.stop()
    assert [fault.reason for fault in metrics.faults.lasting() if fault.what == "opening the database"] == [
        "the file was removed or replaced while it was in use"
    ]
    assert [one.id for one in opened(directory).open_incidents(NAME)] == [one.id for one in watched.book.open]


def test_a_full_disk_holds_the_database_up_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "LONGEST_PAUSE", 0.2)
    metrics, full = OwnMetrics(), [True]
    history = opened(tmp_path, metrics)
    engine = history.reader._database.engine

    @event.listens_for(engine, "begin")
    def no_room(connection: Connection) -> None:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages if full[0] else 1_000_000}")

    history.start()
    large = {"deployment": NAME, "at": 1.0, "verdict": "healthy", "reason": "x" * 100_000}
    history._writer.enqueue(Write(Rank.VERDICT, statements.add_verdict(large)))
    watched = deployment(metrics)
    evaluations = list(live(history, watched, rounds(30, begin=time.time() - 450)))
    until(lambda: value(metrics, "diag_errors_total", part="history") >= 2)
    begun = time.monotonic()
    history.settle(60.0)
    assert time.monotonic() - begun < 30, "nobody waits for a database that fails"
    full[0] = False
    history.stop()
    assert value(metrics, "diag_dropped_total", queue="history") == 0
    again = opened(tmp_path)
    assert [one.id for one in again.open_incidents(NAME)] == [one.id for one in watched.book.open]
    assert len(again.reader.verdicts(NAME, 0.0, evaluations[-1].at)) >= 3


def test_a_url_that_cannot_be_used_is_refused_without_showing_its_password(tmp_path: Path) -> None:
    for url in ("mysql://user:hunter2@db/x", "nonsense"):
        with pytest.raises(UsageError) as error:
            url_of(HistorySettings(directory=tmp_path, database=url), None)
        assert "hunter2" not in str(error.value)
    url = url_of(HistorySettings(database="postgresql://diag@127.0.0.1:1/x"), "hunter2")
    with pytest.raises(CollectError) as refused:
        Database(url, lambda _: None)
    assert "hunter2" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_directory_that_cannot_be_made_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CollectError, match=r"history\.directory"):
        opened(tmp_path / "file" / "below")
