"""`diag explain --output patch`: what a shell pipes into `git apply`."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnostics.cli import explain, sources
from diagnostics.cli.main import diag, main
from diagnostics.errors import EXIT_COLLECT, EXIT_FINDINGS, EXIT_OK, EXIT_USAGE
from diagnostics.signals.signal import Scope
from diagnostics.wire.records import BodyKind, Scrape
from tests.captures.recorded import explanation_of, labels, scrapes_of

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


def test_of_a_finding_behind_the_first_no_patch_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    full = "fixtures/captures/gpu-handed-over-instanced.tar.xz"
    explained = json.loads(CliRunner().invoke(diag, ["explain", full, "--output", "json"]).stdout)
    code = main(["explain", full, "--output", "patch"])
    printed = capsys.readouterr()

    assert [bool(one["suggestion"]["patch"]) for one in explained["findings"][:2]] == [False, True]
    assert (code, printed.out) == (EXIT_OK, "")
    assert printed.err == (
        "diag: no patch: gpu-saturated of safety needs another remedy: "
        "serve safety from 2 GPUs of this kind, or make its requests cheaper\n"
    )


@pytest.mark.parametrize("name", labels())
def test_what_is_printed_of_a_recording_applies_or_is_nothing_with_one_line_why(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explanation = explanation_of(scrapes_of(name))
    explain._show(explanation, "patch", None, verbose=False)
    printed = capsys.readouterr()
    if not printed.out:
        assert printed.err.startswith("diag: no patch: ")
        assert printed.err.count("\n") == 1
        return
    for on in explanation.evidence.subjects(Scope.MODEL):
        folder = tmp_path / (on.model or "")
        folder.mkdir(exist_ok=True)
        (folder / "config.pbtxt").write_text(explanation.evidence.config_file(on) or "")

    assert printed.err == ""
    for tool in (["git", "apply", "--check", "-"], ["patch", "-p1", "--silent"]):
        subprocess.run(tool, input=printed.out, text=True, check=True, cwd=tmp_path)


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
