"""Two processes that report under one number, over one database: by a mistake in a deployment, or while one ends."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from diagnostics.service.http.page.pages import troubles
from diagnostics.settings.tree import FleetSettings
from tests.service.serving import Serving
from tests.service.test_fleet import worker
from tests.store.lived import opened
from tests.store.postgres import PASSWORD, postgres


def test_two_processes_of_one_number_say_so_until_one_ends(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each overwrites what the other reports, and both watch the same servers."""
    with worker(0, tmp_path) as first, worker(0, tmp_path) as second:
        for one in (first, second):  # what an earlier process left is no other's
            one.board.exchange()
        assert not second.service.metrics.faults.lasting()
        first.board.exchange()
        second.board.exchange()
        for one in (first, second):
            (fault,) = one.service.metrics.faults.lasting()
            assert "the only one that reports as worker 0" in fault.what
            assert "give it its own fleet.worker" in fault.reason
            assert f"process {os.getpid()} on {socket.gethostname()}" in fault.reason
        assert "give it its own fleet.worker" in next(troubles(first.service.metrics))
        assert caplog.text.count("reports as worker 0") == 2

        second.board.exchange()
        assert not second.service.metrics.faults.lasting()


def test_a_worker_that_starts_again_is_not_another(tmp_path: Path) -> None:
    for _ in range(2):
        with worker(0, tmp_path) as one:
            for _ in range(3):
                one.board.exchange()
            assert not one.service.metrics.faults.lasting()


@pytest.mark.live
def test_two_services_over_one_postgresql_say_so(tmp_path: Path):
    """Neither knows of workers: each would end the incidents of the other, and open its own again."""
    with postgres() as server, ExitStack() as stack:
        boards = []
        for name in ("first", "second"):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "password").write_text(PASSWORD)
            history = opened(folder, database=server.url, database_password_file=folder / "password")
            service = stack.enter_context(Serving(["chat"], fleet=FleetSettings(), reports=history.workers))
            boards.append(service)
        for _ in range(2):
            for one in boards:
                one.board.exchange()
        for one in boards:
            (fault,) = one.service.metrics.faults.lasting()
            assert "its own history.database" in fault.reason
