"""Command lines that make no sense end in one line and exit code 2, and never in another question's answer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.cli.output import show_patch
from diagnostics.cli.sources import ReadingPatience
from diagnostics.diagnosis.objective import Objective
from diagnostics.errors import CollectError, UsageError
from diagnostics.lint.problem import read_text
from diagnostics.settings import text_file
from diagnostics.wire import server
from exporters.sources import machine
from exporters.sources.machine import Machine
from exporters.sources.repository import repository_scrapes
from tests.captures.recorded import FOLDER

CAPTURE = str(FOLDER / "cpu-handed-single-instance.tar.xz")
GPU_CAPTURE = str(FOLDER / "gpu-handed-gpu-saturated.tar.xz")


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("diag: ")
    assert shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize(
    ("options", "stated"),
    [
        (["--at", ""], "cannot read the time ''"),
        (["--at", "9999-12-31T23:59:59Z"], "the capture covers 2026-11-27T21:20:37Z to 2026-11-27T21:21:13Z"),
        (["--at", "99999999999999999999"], "the capture covers"),
        (["--objective", ""], "cannot read objective ''"),
        (["--why-not", ""], "there is no check ''"),
        (["--since", "0s"], "'0s' is not a duration"),
        (["--fail-on", "never ever"], "is not one of"),
        (["--no-such-option"], "see diag explain --help"),
    ],
)
def test_an_option_that_names_nothing_is_refused(options, stated, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", CAPTURE, *options]) == 2
    assert stated in one_line(capsys)


@pytest.mark.parametrize("arguments", [["explain", ""], ["record"], ["dance"], ["checks", ""]])
def test_an_argument_that_names_nothing_is_refused(arguments, capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 2
    one_line(capsys)


@pytest.mark.parametrize("text", ["p100 < 1s", "p200 < 1s", "p00 < 1s", "p05 < 1s", "p95 < 0ms", "mean < 0.000s"])
def test_an_objective_that_no_latency_can_meet_or_miss_is_refused(text: str):
    with pytest.raises(UsageError):
        Objective.parse(text)


def test_p999_is_the_last_of_a_thousand():
    assert Objective.parse("p999 < 1s").quantile == 0.999


def test_two_captures_of_servers_of_one_name_are_not_mixed(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", CAPTURE, str(FOLDER / "cpu-handed-healthy.tar.xz")]) == 2
    assert "holds a server named 'triton-0'" in one_line(capsys)


def test_a_capture_named_twice_is_read_once(capsys: pytest.CaptureFixture[str]):
    assert main(["explain", CAPTURE]) == 0
    once = capsys.readouterr().out
    assert main(["explain", CAPTURE, CAPTURE]) == 0
    assert capsys.readouterr().out == once


def test_gpu_samples_are_not_taken_for_those_of_another_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    other = tmp_path / "other"
    shutil.unpack_archive(CAPTURE, tmp_path / "packed")
    (inner,) = (tmp_path / "packed").iterdir()
    shutil.move(inner, other)
    (other / "triton-0").rename(other / "triton-1")
    assert main(["explain", GPU_CAPTURE, str(other), "--output", "json"]) == 0
    shown = capsys.readouterr()
    assert "GPU samples are not used" in shown.err
    sources = {line["source"] for found in json.loads(shown.out)["findings"] for line in found["evidence"]}
    assert not any("nvml" in source for source in sources)


def test_this_machines_gpus_are_not_taken_for_those_of_a_server_elsewhere(monkeypatch: pytest.MonkeyPatch):
    class Server:
        name, host, ports = "s", "h", ()

    pids = iter([1, None])
    monkeypatch.setattr(machine, "_pid", lambda _: next(pids))
    monkeypatch.setattr(machine.NvmlSampler, "open", lambda: pytest.fail("was opened"))
    assert Machine([Server(), Server()]).local == ("s",)  # type: ignore[list-item]


def test_a_recording_of_a_capture_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    assert main(["record", CAPTURE, "-o", str(tmp_path / "copy.tar")]) == 2
    assert "is a path, and a server is recorded" in one_line(capsys)


def test_output_that_the_shell_has_closed_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["checks"]) == 3
    sys.stdout.close()
    sys.stderr.close()


PRINTING = (
    ["--help"],
    ["--version"],
    ["checks"],
    ["explain", CAPTURE],
    ["diff", CAPTURE, CAPTURE],
    ["whatif", CAPTURE, "--set", "safety.instance_group.count=3"],
    ["lint", "fixtures/lint"],
    ["gen", "--check", "--output", "rules"],
    ["serve", "--check-config"],
    ["tune", "--help"],
)


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
def test_each_verb_says_that_its_output_could_not_be_written(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(arguments) == 3
    assert one_line(capsys) == "diag: standard output: no space left on device\n"


@pytest.mark.parametrize("redirected", [">&-", ">/dev/full", ">&- 2>&-", ">/dev/full 2>/dev/full"])
def test_output_that_cannot_be_written_is_one_line_and_exit_code_3(redirected: str):
    started = f'exec "$0" -m tests.hostile.entry "$@" {redirected}'
    ended = subprocess.run(["bash", "-c", started, sys.executable, "checks"], stderr=subprocess.PIPE, text=True)
    reason = "is closed" if "&-" in redirected else "no space left on device"
    assert ended.stderr == ("" if "2>" in redirected else f"diag: standard output: {reason}\n")
    assert ended.returncode == 3


def test_errors_that_cannot_be_written_change_no_exit_code():
    started = [sys.executable, "-m", "tests.hostile.entry", "explain", "./none.prom"]
    with Path("/dev/full").open("w") as full:
        assert subprocess.run(started, stderr=full).returncode == 3


def test_a_pipe_among_generated_files_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "PATIENCE_FOR_A_WRITER", 0.1)
    (tmp_path / "recording").mkdir()
    os.mkfifo(tmp_path / "recording/pipe.yaml")
    assert main(["gen", "--check", "--output", str(tmp_path)]) == 2
    assert "nothing came through the pipe" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "endless"])
def test_a_configuration_that_becomes_no_file_while_it_is_read_is_one_line(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_file, "PATIENCE_FOR_A_WRITER", 0.1)
    file = tmp_path / "m/config.pbtxt"
    file.parent.mkdir()
    os.mkfifo(file) if kind == "pipe" else file.symlink_to("/dev/zero")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "is_file", lambda _: True)
        with pytest.raises(CollectError, match="nothing came" if kind == "pipe" else "larger than"):
            list(repository_scrapes(tmp_path, ["s"]))
        with pytest.raises(CollectError, match="nothing came" if kind == "pipe" else "larger than"):
            read_text(file, "config.pbtxt")


REPOSITORY = """name: "m"
backend: "python"
max_batch_size: 8
dynamic_batching { max_queue_delay_microseconds: 90000000 }
# \x9b31m \U000e0041
"""


@pytest.mark.parametrize("output", ["json", "sarif"])
def test_what_lint_quotes_moves_no_cursor(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "m\x9b31m\u202e").mkdir()
    (tmp_path / "m\x9b31m\u202e/config.pbtxt").write_text(REPOSITORY)
    main(["lint", str(tmp_path), "--output", output])
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert "\x9b31m\u202e" in json.dumps(json.loads(shown), ensure_ascii=False)


def test_a_patch_is_escaped_on_a_terminal_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show_patch("-a\x1b[2J\x9b\u200d\n")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_patch("-a\x1b[2J\x9b\u200d\n")
    assert capsys.readouterr().out == "-a\x1b[2J\x9b\u200d\n" + "-a\\x1b[2J\\x9b\\u200d\n"


def test_a_recording_that_takes_too_long_to_read_is_left_and_that_is_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadingPatience, "lasts", lambda self: setattr(self, "over", True))
    assert main(["explain", CAPTURE, "-v"]) == 3
    shown = capsys.readouterr()
    assert "what was recorded last" in shown.out
    assert "read for 4 s of processor time" in " ".join(shown.err.split())


def test_a_server_has_so_many_entries_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_ENTRIES", 3)
    read = server.read_index(json.dumps([{"name": f"m{n}"} for n in range(9)]).encode())
    assert [one.name for one in read.entries] == ["m0", "m1", "m2"]
    assert list(read.refused) == ["'all beyond 3'"]
