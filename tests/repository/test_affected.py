"""Which tests `make quick` chooses, and that it ends in time."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.repository.affected import ALWAYS, MOST_FILES, ROOT, WALKED, affected, importers
from tests.repository.deadline import SECONDS

imported_by = cache(importers)


def test_a_test_that_imports_what_changed_comes_before_one_further_away() -> None:
    chosen = affected(["diagnostics/slo/burn.py"], imported_by())
    direct = [name for name in chosen if name in imported_by()["diagnostics/slo/burn.py"]]

    assert direct
    assert set(chosen[: len(direct) + len(ALWAYS)]) >= set(direct)


def test_a_changed_test_is_run() -> None:
    name = "tests/repository/test_prose.py"
    assert name in affected([name], imported_by())


@pytest.mark.parametrize("folder", WALKED)
def test_what_is_found_by_walking_has_its_tests(folder: str) -> None:
    new = f"{folder}no_such_file.py"
    assert set(WALKED[folder]) <= set(affected([new], imported_by()))


def test_the_most_central_module_is_not_too_much() -> None:
    assert len(affected(["diagnostics/units.py"], imported_by())) <= MOST_FILES


@pytest.mark.parametrize("name", [*ALWAYS, *(test for tests in WALKED.values() for test in tests)])
def test_named_tests_exist(name: str) -> None:
    assert (ROOT / name).is_file()


def test_what_would_begin_too_late_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): assert False\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tests.repository.deadline",
        str(tmp_path),
        "-c",
        "/dev/null",
    ]
    ends = {}
    for name, seconds in (("over", "-1"), ("left", "100")):
        environment = {SECONDS: seconds, "PYTHONPATH": str(ROOT)}
        ends[name] = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)

    assert {name: done.returncode for name, done in ends.items()} == {"over": 0, "left": 1}
    assert re.search(r"no time for 1 tests: .venv/bin/pytest -q \S*test_one\.py\n", ends["over"].stdout)
    assert "no time" not in ends["left"].stdout
