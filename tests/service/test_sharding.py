"""Workers of a fleet share the deployments of the same settings, and one database, without a word to each other."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from diagnostics.errors import UsageError
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.plan import check_fleet, own, owner, owns
from diagnostics.service.service import Service
from diagnostics.settings.load import load
from diagnostics.settings.tree import FleetSettings, Settings
from diagnostics.store import statements
from diagnostics.store.digest import Rank, Write
from diagnostics.store.tables import segments
from tests.service.http.door import door
from tests.service.test_service_restarts import ONE, left_open, settings
from tests.store.lived import opened

NAMES = [f"deployment-{number}" for number in range(400)]


def as_worker(worker: int, watched: Settings, workers: int = 2) -> Settings:
    return watched.model_copy(update={"fleet": FleetSettings(workers=workers, worker=worker)})


def test_every_deployment_is_watched_by_one_worker_and_all_have_about_as_much_to_do() -> None:
    watched = settings(*NAMES[:40])
    shares = [set(own(as_worker(worker, watched, 4))) for worker in range(4)]
    assert sum(map(len, shares)) == len(set().union(*shares)) == 40
    load = Counter(owner(name, 4) for name in NAMES)
    assert min(load.values()) > 400 / 4 * 0.75, load


def test_a_further_worker_takes_its_share_and_moves_nothing_else() -> None:
    moved = {owner(name, 5) for name in NAMES if owner(name, 4) != owner(name, 5)}
    assert moved == {4}


def test_a_worker_that_is_none_of_them_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    file.write_text("[fleet]\nworkers = 2\nworker = 2\n")
    with pytest.raises(UsageError, match="there is no worker 2 of 2: they are numbered from 0 on"):
        load(file, {}, {})


@pytest.mark.parametrize(
    ("more", "stated"),
    [
        ("", "each must know which one it is; set fleet.worker"),
        ("worker = 1\n", "share their history in a PostgreSQL, and none is named; set history.database"),
    ],
)
def test_workers_that_could_not_work_together_do_not_start(tmp_path: Path, more: str, stated: str) -> None:
    file = tmp_path / "diag.toml"
    file.write_text(f"[fleet]\nworkers = 2\n{more}")
    with pytest.raises(UsageError, match=stated) as caught:
        check_fleet(load(file, {}, {}))
    assert str(caught.value).startswith(f"{file}:2: fleet.workers: ")
    check_fleet(load(file, {"DIAG_FLEET__WORKER": "0", "DIAG_HISTORY__DATABASE": "postgresql://db/diag"}, {}))


def test_a_worker_leaves_the_incidents_of_the_others_open(tmp_path: Path) -> None:
    mine = owner("chat", 2)
    left_open(tmp_path, ONE, replace(ONE, id="gone", deployment=next(n for n in NAMES if owner(n, 2) == mine)))
    ended = {}
    for worker in range(2):
        fleet = as_worker(worker, settings("chat", "other"))
        history = opened(tmp_path, owns=partial(owns, fleet.fleet))
        service = Service(fleet, memory=history, metrics=OwnMetrics())
        ended[worker] = {incident.id for incident in history.open_incidents()}
        assert ("chat" in service.deployments) is (worker == mine)
    assert ended == {mine: {ONE.id, "gone"}, 1 - mine: set()}


def test_a_worker_does_not_forget_the_files_of_the_others(tmp_path: Path) -> None:
    row = {"start": 0.0, "end": 1.0, "bytes": 1}
    history = opened(tmp_path)
    history.start()
    for name in ("a", "b"):
        kept = statements.set_segments(
            [{**row, "path": name, "deployment": name}], lambda other, name=name: other == name
        )
        history._writer.enqueue(Write(Rank.SIGNALS, kept))
    history.stop()
    with opened(tmp_path).reader._database.engine.connect() as connection:
        assert sorted(connection.scalars(segments.select().with_only_columns(segments.c.path))) == ["a", "b"]


def test_a_worker_that_has_no_deployment_is_ready(tmp_path: Path) -> None:
    file = tmp_path / "diag.toml"
    file.write_text('[[server]]\nurl = "http://127.0.0.1:1"\n')
    idle = 1 - owner("127.0.0.1:1", 2)
    for worker, status in ((idle, 200), (1 - idle, 503)):
        with door({"fleet.workers": "2", "fleet.worker": str(worker)}, file=file) as opened_door:
            assert opened_door.ask("/readyz").status == status
