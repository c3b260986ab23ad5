from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.cli.main import main
from diagnostics.gen.files import generated

ROOT = Path(__file__).parents[2]
Printed = pytest.CaptureFixture[str]


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as `diag gen` wrote it, beside the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["gen", "--output", "rules"]) == 0
    return tmp_path / "rules"


def _stale(printed: Printed) -> list[str]:
    printed.readouterr()
    assert main(["gen", "--check"]) == 1
    return printed.readouterr().out.splitlines()


def test_the_committed_rules_are_what_the_checks_say(capsys: Printed) -> None:
    assert main(["gen", "--check", "--output", str(ROOT / "rules")]) == 0, capsys.readouterr().out


def test_it_writes_every_file_and_nothing_the_second_time(rules: Path, capsys: Printed) -> None:
    files = {path.relative_to(rules).as_posix(): path.read_text() for path in rules.rglob("*") if path.is_file()}
    assert files == generated(catalogue(), "runbooks")
    capsys.readouterr()
    assert main(["gen"]) == 0
    assert f"{len(files)} files, 0 written, 0 removed" in capsys.readouterr().out


def test_a_missing_an_edited_and_a_forgotten_file_are_stale(rules: Path, capsys: Printed) -> None:
    (rules / "README.md").unlink()
    edited = rules / "alerts/meta.yaml"
    edited.write_text(edited.read_text().replace("60m", "1m"))
    (rules / "runbooks/cold-start.md").rename(rules / "runbooks/once-a-check.md")
    reported = _stale(capsys)
    assert set(reported[:-1]) == {
        "rules/README.md: missing",
        "rules/alerts/meta.yaml: differs",
        "rules/runbooks/cold-start.md: missing",
        "rules/runbooks/once-a-check.md: no longer generated",
    }


def test_what_it_says_to_run_makes_stale_files_fresh(rules: Path, capsys: Printed) -> None:
    (rules / "README.md").unlink()
    (rules / "runbooks/cold-start.md").rename(rules / "runbooks/once-a-check.md")
    program, *arguments = shlex.split(_stale(capsys)[-1].partition("run: ")[2])
    assert program == "diag"
    assert main(arguments) == 0
    assert main(["gen", "--check"]) == 0


def test_it_leaves_files_alone_that_it_did_not_write(rules: Path) -> None:
    own = rules / "alerts/own.yaml"
    own.write_text("groups: []\n")
    assert main(["gen", "--check"]) == 0
    assert main(["gen"]) == 0
    assert own.read_text() == "groups: []\n"


def test_it_does_not_overwrite_a_page_of_someone_elses(tmp_path: Path, capsys: Printed) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# My project\n")
    assert main(["gen", "--output", str(tmp_path)]) == 2
    reported = capsys.readouterr().err
    assert reported.count("\n") == 1
    assert "README.md: would be overwritten" in reported
    assert readme.read_text() == "# My project\n"
    assert list(tmp_path.iterdir()) == [readme]


def test_the_runbooks_address_is_in_the_alerts_and_in_what_to_run(rules: Path, capsys: Printed) -> None:
    capsys.readouterr()
    assert main(["gen", "--check", "--runbooks", "https://wiki.example.org/x"]) == 1
    command = capsys.readouterr().out.splitlines()[-1].partition("run: ")[2]
    assert main(shlex.split(command)[1:]) == 0
    assert "https://wiki.example.org/x/cold-start.md" in (rules / "alerts/serving.yaml").read_text()


@pytest.mark.parametrize("arguments", [["gen"], ["gen", "--check"]])
def test_without_a_rules_folder_it_asks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    reported = capsys.readouterr().err
    assert "--output" in reported
    assert reported.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output", ["a-file", "a-file/below"])
def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, capsys: Printed, output: str) -> None:
    (tmp_path / "a-file").write_text("")
    assert main(["gen", "--output", str(tmp_path / output)]) == 2
    reported = capsys.readouterr().err
    assert reported.startswith(f"diag: {tmp_path / 'a-file'}")
    assert reported.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere; run as another user to see it")
def test_a_read_only_folder_is_one_line(tmp_path: Path, capsys: Printed) -> None:
    tmp_path.chmod(0o500)
    assert main(["gen", "--output", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_checking_a_folder_that_does_not_exist_says_so(tmp_path: Path, capsys: Printed) -> None:
    assert main(["gen", "--check", "--output", str(tmp_path / "none")]) == 2
    assert "does not exist" in capsys.readouterr().err
