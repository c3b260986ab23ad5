"""What `make new-check` writes, tried in a copy of the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diagnostics.checks.check import Layer
from tests.checks.designed import DESIGNED
from tests.checks.new_check import ROOT, TEMPLATE_MARK, drafts, main

FOLDERS = ("diagnostics", "exporters", "rules", "docs")
TESTS = ("tests/checks/test_contract.py", "tests/checks/test_limits.py", "tests/diagnosis/test_undecided.py")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code, the tests of checks and what is generated, with one more check."""
    target = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in (*FOLDERS, "tests/checks", "tests/diagnosis"):
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for path in (ROOT / "pyproject.toml", ROOT / "tests/conftest.py", *(ROOT / "tests").glob("builders*.py")):
        shutil.copy(path, target / path.relative_to(ROOT))
    done = run(target, "-m", "tests.checks.new_check", "queue-for-nothing", "--layer", "host")
    assert done.returncode == 0, done.stderr
    return target


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def tried(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, "-k", "queue-for-nothing")


def test_only_what_is_to_be_filled_in_fails_and_is_named(copy: Path) -> None:
    done = tried(copy)
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]

    assert len(failed) == 1, done.stdout
    assert "test_nothing_is_left_to_fill_in" in failed[0]
    assert f'queue_for_nothing.py:1: """{TEMPLATE_MARK}: the cause in one sentence' in done.stdout


def test_what_is_generated_of_it_is_a_page_an_alert_and_its_test(copy: Path) -> None:
    done = run(copy, "-c", "from diagnostics.cli.entry import main; main()", "gen", "--output", "rules")

    assert done.returncode == 0, done.stderr
    assert (copy / "rules/runbooks/queue-for-nothing.md").is_file()
    assert (copy / "rules/tests/queue-for-nothing.yaml").is_file()
    assert "QueueForNothing" in (copy / "rules/alerts/host.yaml").read_text()


def test_a_check_that_is_filled_in_passes(copy: Path) -> None:
    written = copy / "diagnostics/checks/queue_for_nothing.py"
    written.write_text(written.read_text().replace(TEMPLATE_MARK, "Known"))
    done = tried(copy)

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


@pytest.mark.parametrize("layer", Layer)
def test_an_id_is_added_to_its_layer_on_a_line_that_is_short_enough(layer: Layer) -> None:
    (text,) = (text for path, text in drafts("queue-for-nothing", layer).items() if path.name == "designed.py")
    written: dict[str, dict[str, Layer]] = {}
    exec(text, written)

    assert written["DESIGNED"] == {**DESIGNED, "queue-for-nothing": layer}
    assert max(map(len, text.splitlines())) <= 120


@pytest.mark.parametrize("name", ["", "one", "Not-An-Id", "../x-y", "queue-rejections"])
def test_an_id_that_cannot_be_is_refused(name: str) -> None:
    assert main([name]) == 2
