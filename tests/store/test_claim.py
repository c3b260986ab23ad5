from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.errors import CollectError
from diagnostics.store.claim import claimed


def test_a_directory_is_held_by_one_service_and_free_again_when_that_one_ends(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(CollectError, match="another diag serve keeps its history here; give each its own"),
        claimed(tmp_path),
    ):
        pytest.fail("two hold it")

    with claimed(tmp_path):
        pass


def test_where_nothing_can_be_written_nothing_is_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with claimed(tmp_path / "away"):
        assert "no such file or directory" in caplog.text
