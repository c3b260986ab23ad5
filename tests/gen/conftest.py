from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Promtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def promtool() -> Promtool:
    """Run the real promtool; in CI its absence is a failure."""
    unpacked = ROOT / ".tools/usr/bin/promtool"
    program = str(unpacked) if unpacked.exists() else shutil.which("promtool")
    if program is None:
        reported = "there is no promtool; unpack one with: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(reported)
        pytest.skip(reported)

    def run(*arguments: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [program, *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=300, check=False)

    return run
