"""A folder that is read while somebody else writes to it, as a shared one in /tmp."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from diagnostics.errors import CaptureError
from diagnostics.wire.archive import files


@pytest.mark.parametrize("becomes", ["a link", "a link to a folder"])
def test_a_file_that_becomes_a_link_is_not_followed_out_of_the_folder(
    becomes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder, outside = tmp_path / "capture", tmp_path / "secret"
    folder.mkdir()
    outside.write_text("hunter2")
    file = folder / "capture.json"
    file.write_text("{}")
    looked_at = Path.lstat

    def and_replaced(path: Path) -> os.stat_result:
        found = looked_at(path)
        if path == file:
            path.unlink()
            path.symlink_to(outside if becomes == "a link" else tmp_path)
        return found

    monkeypatch.setattr(Path, "lstat", and_replaced)
    with pytest.raises(CaptureError, match="cannot be read"):
        list(files(folder, lambda _: True))
