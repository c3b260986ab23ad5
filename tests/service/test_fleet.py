"""The fleet view: every worker's deployments on every worker's page, through the database that they share."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.objective import Objective
from diagnostics.render.fleet import fleet_frame, fleet_gist
from diagnostics.service.fleet import SILENT, SILENT_AFTER, FleetState
from diagnostics.service.plan import owner
from diagnostics.settings.tree import FleetSettings
from diagnostics.store.workers import WorkerReport, WorkerReports
from tests.service.serving import Serving, recorded
from tests.service.test_service_pages import text_of
from tests.store.lived import opened

SLOW, HEALTHY = "cpu-handed-single-instance", "cpu-handed-healthy"
OBJECTIVE = "p95 < 200ms"
NAMES = [f"deployment-{number}" for number in range(8)]


def of(worker: int) -> list[str]:
    return [name for name in NAMES if owner(name, 2) == worker]


@contextmanager
def worker(number: int, directory: Path, objective: str = OBJECTIVE) -> Iterator[Serving]:
    reports = opened(directory).workers
    fleet = FleetSettings(workers=2, worker=number)
    with Serving(NAMES, fleet=fleet, reports=reports, objective=objective) as made:
        yield made


def missing_it() -> Explanation:
    """Return the slow recording's verdict for a deployment with the objective."""
    return replace(recorded(SLOW), objective=Objective.parse(OBJECTIVE))


def named(fleet: FleetState) -> list[str]:
    return [one.name for one in fleet.deployments]


def test_each_worker_shows_the_deployments_of_all_the_worst_first(tmp_path: Path) -> None:
    slow, well = of(0)[0], of(1)[0]
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        first.stated(slow, missing_it())
        second.stated(well, recorded(HEALTHY))
        first.board.exchange()
        second.board.exchange()

        fleet = second.board.state()
        page = text_of(second, "/fleet")
        answer = json.loads(text_of(second, "/api/v1/fleet"))

    worst = fleet.deployments[0]
    assert sorted(named(fleet)) == NAMES
    assert (worst.name, worst.worker, worst.tone) == (slow, 0, "critical")
    assert (worst.check, worst.about) == ("single-instance-serialization", "safety")
    assert (worst.entry, worst.objective, worst.statistic) == ("chat", "p95 < 200ms", "p95")
    assert worst.missed
    assert worst.per_second == pytest.approx(37.9, rel=0.01)
    assert worst.url == f"http://127.0.0.1:{first.port}/deployments/{slow}" or worst.url.endswith(f"/{slow}")
    assert next(one for one in fleet.deployments if one.name == well).word == "healthy"
    assert {one.word for one in fleet.deployments if one.name not in (slow, well)} == {"waiting"}
    assert page.index(f">{slow}<") < page.index(f">{well}<")
    assert "p95 &lt; 200ms missed" in page
    assert [one["name"] for one in answer["deployments"]] == named(fleet)


def test_a_worker_that_went_silent_is_shown_with_what_it_reported_last(tmp_path: Path) -> None:
    slow, well = of(0)[0], of(1)[0]
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        first.stated(slow, recorded(SLOW))
        first.board.exchange()
        second.ahead = SILENT_AFTER + 1
        second.stated(well, recorded(HEALTHY))
        second.board.exchange()

        fleet = second.board.state()
        page, home = text_of(second, "/fleet"), text_of(second, "/")

    known = {one.name: one for one in fleet.deployments}
    assert [one.silent for one in fleet.workers] == [True, False]
    assert {known[name].word for name in of(0)} == {SILENT}
    assert known[slow].tone == "critical"
    assert known[slow].headline.endswith("before: degraded")
    assert known[well].word == "healthy"
    assert f"nobody watches its {len(of(0))} deployments" in page
    assert f"nobody watches its {len(of(0))} deployments" in home


def test_a_worker_that_never_started_is_missed(tmp_path: Path) -> None:
    with worker(1, tmp_path) as second:
        second.board.exchange()
        assert not any(one.silent for one in second.board.state().workers)

        second.ahead = SILENT_AFTER + 1
        second.board.exchange()
        fleet = second.board.state()

    assert {one.headline for one in fleet.deployments if one.word == SILENT} == {"worker 0 has never reported"}
    assert sorted(one.name for one in fleet.deployments if one.word == SILENT) == sorted(of(0))


def test_a_host_that_was_never_read_comes_after_a_degraded_deployment(tmp_path: Path) -> None:
    slow, unknown = of(0)[0], of(1)[0]
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        first.stated(slow, recorded("cpu-handed-batch-window-long"))
        second.reached(unknown, error="connection refused", ago=None)
        first.board.exchange()
        second.board.exchange()
        fleet = second.board.state()

    assert named(fleet)[:2] == [slow, unknown]
    assert fleet.deployments[1].word == "unreachable"


def test_while_the_database_is_away_no_worker_is_called_silent(tmp_path: Path) -> None:
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        first.board.exchange()
        second.board.exchange()
        second.ahead = SILENT_AFTER + 1
        database = second.reports._database  # type: ignore[union-attr]
        database.engine.dispose()
        (tmp_path / "history.db").unlink()
        (tmp_path / "history.db").mkdir()
        second.board.exchange()

        assert not any(one.silent for one in second.board.state().workers)
        page = text_of(second, "/fleet")

    assert "exchanging reports with the other workers" in page


def test_a_report_of_another_version_is_left_out(tmp_path: Path) -> None:
    with worker(1, tmp_path) as second:
        assert isinstance(second.reports, WorkerReports)
        second.reports.put(WorkerReport(0, 1.0, b'{"deployments": "other"}'))
        second.board.exchange()

        assert sorted(named(second.board.state())) == NAMES


_DEEP = b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
_LATE = json.dumps(
    {"deployments": [{"name": of(0)[0], "word": "degraded", "tone": "critical", "headline": "slow", "since": 1e300}]}
).encode()


@pytest.mark.parametrize("body", [_DEEP, _LATE], ids=["deep", "a time that is none"])
def test_a_hostile_report_of_another_worker_is_left_out(tmp_path: Path, body: bytes) -> None:
    with worker(1, tmp_path) as second:
        assert isinstance(second.reports, WorkerReports)
        second.reports.put(WorkerReport(0, time.time(), body))
        second.board.exchange()

        assert {one.word for one in second.board.state().deployments} == {"waiting"}
        assert json.loads(text_of(second, "/api/v1/fleet"))["workers"][0]["silent"] is False


@pytest.mark.parametrize(("column", "value"), [("at", "yesterday"), ("at", 1e300), ("body", "text"), ("body", 10**12)])
def test_a_row_of_other_types_is_left_out(tmp_path: Path, column: str, value: object) -> None:
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        first.board.exchange()
        with sqlite3.connect(tmp_path / "history.db") as database:
            database.execute(f'update workers set "{column}" = ? where worker = 0', (value,))
        second.board.exchange()

        assert second.board.state().workers[0].reported is None


@pytest.mark.parametrize("wrong", [-3600.0, 3600.0], ids=["an hour behind", "an hour ahead"])
def test_a_worker_whose_clock_is_wrong_is_silent_once_it_reports_no_more(tmp_path: Path, wrong: float) -> None:
    with worker(0, tmp_path) as first, worker(1, tmp_path) as second:
        for seconds in (0.0, 15.0):
            first.ahead, second.ahead = wrong + seconds, seconds
            first.board.exchange()
            second.board.exchange()
        assert not any(one.silent for one in second.board.state().workers)

        second.ahead += SILENT_AFTER + 1
        second.board.exchange()

        assert [one.silent for one in second.board.state().workers] == [True, False]


def test_addresses_of_other_workers_are_web_addresses(tmp_path: Path) -> None:
    name = of(0)[0]
    entry = {"name": name, "word": "degraded", "tone": "critical", "headline": "slow", "url": "javascript:alert(1)"}
    with worker(1, tmp_path) as second:
        assert isinstance(second.reports, WorkerReports)
        body = json.dumps({"deployments": [entry, {**entry, "tone": "loud"}]}).encode()
        second.reports.put(WorkerReport(0, time.time(), body))
        second.board.exchange()
        page = text_of(second, "/fleet")

    assert name in page
    assert "javascript:" not in page


def test_one_process_shows_its_own_deployments() -> None:
    with Serving(NAMES[:2]) as made:
        made.stated(NAMES[1], recorded(SLOW))
        fleet = made.board.state()
        page = text_of(made, "/fleet")

    assert named(fleet) == [NAMES[1], NAMES[0]]
    assert [one.silent for one in fleet.workers] == [False]
    assert '<th scope="col">worker' not in page


def test_watch_prints_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow = of(0)[0]
    with worker(0, tmp_path) as first:
        first.stated(slow, missing_it())
        first.ahead = SILENT_AFTER + 1
        first.board.exchange()
        status = main(["watch", "--fleet", "--once", "--url", first.url])

    shown = capsys.readouterr().out
    assert status == 0
    assert "8 deployments of 2 workers" in shown
    assert f"worker 1 has never reported: nobody watches its {len(of(1))} deployments" in shown
    assert re.search(
        rf"^degraded       {slow}  p95 6\d\d ms, objective p95 < 200ms missed, 37.9/s, single", shown, re.M
    )


def test_a_fleet_with_hostile_names_stays_on_its_lines() -> None:
    entry = {
        "name": "a\x1b[2J\nb",
        "word": "healthy",
        "tone": "healthy",
        "headline": "healthy",
        "check": "",
        "about": "",
        "statistic": "",
        "seconds": None,
        "objective": "",
        "missed": False,
        "per_second": None,
        "since": None,
        "worker": 0,
    }
    fleet = {"now": 1000.0, "workers": [], "deployments": [entry], "error": "gone"}

    lines = fleet_frame(fleet, 80)

    assert len(lines) == 3
    assert not any("\x1b" in line or "\n" in line for line in lines)
    assert fleet_gist(fleet) != fleet_gist({**fleet, "error": ""})
