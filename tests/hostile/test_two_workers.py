"""Two processes that report under one number, over one database: by a mistake in a deployment, or while one ends."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from diagnostics.service.http.page.pages import troubles
from tests.service.test_fleet import worker


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
