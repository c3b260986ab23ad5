"""`diag explain --output patch`: what a shell pipes into `git apply`."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from diagnostics.cli import sources
from diagnostics.cli.main import main
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, EXIT_USAGE
from diagnostics.wire.records import BodyKind, Scrape

HEALTHY = "fixtures/captures/cpu-handed-healthy.tar.xz"
SLOW = "fixtures/captures/cpu-handed-single-instance.tar.xz"


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    with tarfile.open(SLOW) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def test_the_patch_alone_is_printed_and_can_be_applied(unpacked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", SLOW, "--output", "patch", "--fail-on", "critical"])
    patch = capsys.readouterr().out
    repository = next(unpacked.rglob("safety/config.pbtxt")).parents[1]
    subprocess.run(["git", "apply", "--unsafe-paths", "-"], input=patch, text=True, check=True, cwd=repository)

    assert code == EXIT_FINDINGS
    assert "count: 2" in (repository / "safety" / "config.pbtxt").read_text()


def test_without_a_change_nothing_is_printed_but_why(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["explain", HEALTHY, "--output", "patch"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (EXIT_OK, "")
    assert "no patch: the answer is healthy" in printed.err


def test_a_text_to_paste_is_no_patch_and_the_repository_is_asked_for(
    unpacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (capture,) = unpacked.iterdir()
    shutil.rmtree(next(capture.rglob("repository")))
    code = main(["explain", str(capture), "--output", "patch"])
    printed = capsys.readouterr()

    assert (code, printed.out) == (EXIT_COLLECT, "")
    assert "name the model repository with --repository DIR" in printed.err


def test_only_text_can_be_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", SLOW, "-v", "--output", "json"]) == EXIT_USAGE
    assert "--verbose" in capsys.readouterr().err


def test_on_a_terminal_it_is_told_for_how_long_a_server_was_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Scrape(server="a", kind=BodyKind.METRICS, at=0.0, mono=0.0, body=b"")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)

    assert list(sources._timed([one])) == [one]
    assert "\rreading for 0 s, at most 60 s" in capsys.readouterr().err.replace("\033[K", "")
