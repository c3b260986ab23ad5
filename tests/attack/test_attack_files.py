"""Pipes that nobody writes to and devices without end, named where a file is meant."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.attack.measuring import diag

WHERE = (
    ("explain",),
    ("serve", "--check-config", "--config.file"),
    ("explain", "127.0.0.1:1", "--bearer-token-file"),
    ("explain", "https://127.0.0.1:1", "--ca-file"),
)


@pytest.mark.attack
@pytest.mark.parametrize("arguments", WHERE)
@pytest.mark.parametrize("file", ["pipe", "/dev/zero"])
def test_what_is_no_file_is_given_up(tmp_path: Path, arguments: Sequence[str], file: str):
    os.mkfifo(tmp_path / "pipe")
    ended = diag(*arguments, tmp_path / file, patience=30).is_bounded()
    assert ended.code == 2
    assert ended.errors.startswith("diag: ")
