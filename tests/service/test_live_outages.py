"""Whatever fails around a running service: the rest goes on, and the fault is told of while it lasts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from diagnostics.errors import CollectError
from tests.soak.forking import Forks
from tests.soak.moving import MovingTriton
from tests.soak.outages import CannotMount, faults_of_postgresql, faults_of_the_machine, mounted
from tests.store.lived import opened
from tests.store.postgres import postgres

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def triton() -> Iterator[MovingTriton]:
    with MovingTriton(120).running() as made:
        yield made


def test_a_full_disk_receivers_that_refuse_and_a_clock_that_is_set(
    tmp_path: Path, program: Forks, triton: MovingTriton
) -> None:
    try:
        faults_of_the_machine(tmp_path, program, triton)
    except CannotMount as reason:
        pytest.skip(str(reason))


def test_a_postgresql_that_is_away(tmp_path: Path, program: Forks, triton: MovingTriton) -> None:
    with postgres() as server:
        faults_of_postgresql(tmp_path, program, triton, server)


def test_a_disk_that_cannot_be_written_is_reported_in_one_line_at_the_start(tmp_path: Path) -> None:
    try:
        with mounted(tmp_path / "disk", options=",ro") as disk, pytest.raises(CollectError) as reported:
            opened(disk / "data")
    except CannotMount as reason:
        pytest.skip(str(reason))
    assert "Read-only file system" in str(reported.value)
    assert "\n" not in str(reported.value)
