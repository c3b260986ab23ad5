"""How long the quick commands take, as multiples of the interpreter's own start, all in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.bench.conftest import Goals

ROUNDS = 15
# The console script's own lines, run by this interpreter so that both start the same way.
_SCRIPT = "import sys; from diagnostics.cli.main import main; sys.exit(main())"


def _seconds(*arguments: str, folder: Path) -> float:
    # pip compiles what it installs; a checkout may forbid that.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


@pytest.mark.parametrize(("verb", "most"), [("--version", 8), ("checks", 15)])
def test_a_quick_command_takes_few_interpreter_starts(verb: str, most: float, tmp_path: Path, goals: Goals) -> None:
    commands = {"nothing": ["-c", "pass"], "diag": ["-c", _SCRIPT, verb]}
    for command in commands.values():
        _seconds(*command, folder=tmp_path)  # compiles what is not yet compiled
    took: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            took[name].append(_seconds(*command, folder=tmp_path))
    nothing, diag = (statistics.median(took[name]) for name in ("nothing", "diag"))
    print(f"diag {verb}: {diag * 1e3:.0f} ms, {diag / nothing:.1f} times python -c pass ({nothing * 1e3:.0f} ms)")
    goals.at_most(f"diag {verb}, starts of the interpreter", diag / nothing, most)
