from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.errors import CollectError
from diagnostics.settings.tree import HistorySettings
from diagnostics.store.claim import claimed
from diagnostics.store.database import named_file


def test_a_directory_is_held_by_one_service_and_free_again_when_that_one_ends(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(CollectError, match="another diag serve keeps its history here; give each its own"),
        claimed(tmp_path),
    ):
        pytest.fail("two hold it")

    with claimed(tmp_path):
        pass


def test_a_database_that_lies_elsewhere_is_held_too(tmp_path: Path) -> None:
    one, other, database = tmp_path / "one", tmp_path / "other", tmp_path / "shared.db"
    one.mkdir()
    other.mkdir()
    with (
        claimed(one, database),
        pytest.raises(CollectError, match="another diag serve keeps its history here; give each its own") as refused,
        claimed(other, database),
    ):
        pytest.fail("two hold it")
    assert "history.database" in str(refused.value)
    with claimed(other, database), claimed(one, tmp_path / "another.db"):
        pass


@pytest.mark.parametrize(
    ("database", "file"),
    [("", None), ("sqlite:////data/a.db", "/data/a.db"), ("sqlite://", None), ("postgresql://diag@host/diag", None)],
)
def test_a_file_is_named_by_a_database_of_sqlite_alone(database: str, file: str | None) -> None:
    assert named_file(HistorySettings(database=database)) == (Path(file) if file else None)


def test_where_nothing_can_be_written_nothing_is_held(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with claimed(tmp_path / "away"):
        assert "no such file or directory" in caplog.text
