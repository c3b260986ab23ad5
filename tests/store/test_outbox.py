from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from diagnostics.store.outbox import FileOutbox


def test_a_document_is_there_for_the_next_run(tmp_path: Path) -> None:
    FileOutbox(tmp_path).write("a", {"x": [1]})
    FileOutbox(tmp_path).write("b", {})
    assert FileOutbox(tmp_path).read("a") == {"x": [1]}
    assert FileOutbox(tmp_path).read("never") == {}


def test_a_write_that_is_cut_short_leaves_the_old_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = FileOutbox(tmp_path)
    box.write("a", {"x": 1})

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        box.write("a", {"x": 2})
    assert FileOutbox(tmp_path).read("a") == {"x": 1}


@pytest.mark.parametrize("damage", [b"", b'{"x": ', b"\xff\xfe", b"\0" * 100])
def test_a_damaged_document_is_kept_aside_and_the_next_can_be_written(
    tmp_path: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    box = FileOutbox(tmp_path)
    box.write("a", {"x": 1})
    (tmp_path / "outbox" / "a.json").write_bytes(damage)
    assert box.read("a") == {}
    assert (tmp_path / "outbox" / "a.damaged").read_bytes() == damage
    assert "a.json cannot be used" in caplog.text
    box.write("a", {"x": 2})
    assert box.read("a") == {"x": 2}
