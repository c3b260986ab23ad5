from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from diagnostics.cli.main import main
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.store import raw
from diagnostics.store.database import WriteErrors
from diagnostics.store.recorder import Recorder
from diagnostics.window.rolling import LASTING
from tests.store.lived import rounds

BEGIN = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    metrics, made = OwnMetrics(), tmp_path_factory.mktemp("data")
    recorder = Recorder(made, 120.0, metrics, WriteErrors(metrics), lambda _: None)
    recorder.start()
    for scrape in (scrape for one in rounds(40, begin=BEGIN) for scrape in one):
        recorder.record("triton-0:8000", scrape)
    recorder.stop()
    return made


def explained(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["explain", *arguments, "--output", "json"]) == 0
    return json.loads(capsys.readouterr().out)  # type: ignore[no-any-return]


def test_a_moment_of_the_past_is_explained_without_a_service(directory: Path, capsys) -> None:
    found = explained(capsys, "--history", str(directory), "--at", "22:18", "--since", "2m")
    assert found["window"]["to"] == pytest.approx(BEGIN + 270)
    assert found["window"]["from"] == pytest.approx(BEGIN + 165)
    assert found["verdict"] == "degraded"


def test_without_a_moment_the_newest_minutes_are_explained(directory: Path, capsys) -> None:
    found = explained(capsys, "--history", str(directory))
    assert found["window"]["to"] == pytest.approx(BEGIN + 585)
    assert found["window"]["seconds"] == pytest.approx(300)


def test_the_directory_is_found_by_environment_and_settings(
    directory: Path, tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "diag.toml"
    file.write_text(f'[history]\ndirectory = "{directory}"\n')
    by_file = explained(capsys, "--config.file", str(file), "--at", "22:18")
    monkeypatch.setenv("DIAG_HISTORY__DIRECTORY", str(directory))
    assert explained(capsys, "--at", "22:18") == by_file


@pytest.mark.parametrize(
    ("arguments", "stated"),
    [
        (
            ["--at", "01:00"],
            "nothing was recorded in that time; the history of triton-0:8000 covers 2023-11-14T22:13:20Z to 2023",
        ),
        (["--deployment", "another"], "there is no deployment 'another'"),
        (["--at", "noon"], "cannot read the time"),
    ],
)
def test_what_cannot_be_explained_is_reported_in_one_line(
    directory: Path, capsys, arguments: list[str], stated: str
) -> None:
    assert main(["explain", "--history", str(directory), *arguments]) == 2
    reported = capsys.readouterr().err
    assert stated in reported
    assert reported.count("\n") == 1


def test_an_empty_directory_and_no_source_are_distinguished(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.delenv("DIAG_HISTORY__DIRECTORY", raising=False)
    assert main(["explain", "--history", str(tmp_path)]) == 3
    assert "holds no history" in capsys.readouterr().err
    monkeypatch.setenv("DIAG_WEB__LISTEN_ADDRESS", "127.0.0.1:1")
    assert main(["explain"]) == 3
    assert "no service answers: connection refused; start one with diag serve" in capsys.readouterr().err


def test_explaining_the_past_loads_nothing_of_the_service(directory: Path) -> None:
    program = (
        "import sys\nfrom diagnostics.cli.main import main\n"
        f"assert main(['explain', '--history', {str(directory)!r}]) == 0\n"
        "print([name for name in ('sqlalchemy', 'alembic', 'pydantic', 'prometheus_client') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_of_more_bodies_than_are_read_at_once_the_newest_are_and_the_rest_is_said(
    directory: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = raw.newest_scrapes(directory, "triton-0:8000", BEGIN, BEGIN + 600)
    size = sum(len(one.body or b"") for one in whole.scrapes)
    assert whole.since is None
    monkeypatch.setattr(raw, "MOST_BYTES", size // 2)
    part = raw.newest_scrapes(directory, "triton-0:8000", BEGIN, BEGIN + 600)
    assert part.since is not None
    assert sum(len(one.body or b"") for one in part.scrapes) <= size // 2
    timed = [one for one in whole.scrapes if one.kind not in LASTING and one.at >= part.since]
    assert [(one.at, one.kind) for one in part.scrapes if one.kind not in LASTING] == [(o.at, o.kind) for o in timed]
    assert {one.name for one in part.scrapes if one.kind in LASTING} == {
        one.name for one in whole.scrapes if one.kind in LASTING
    }
    found = explained(capsys, "--history", str(directory), "--since", "1d")
    assert [one for one in found["blind_spots"] if "were recorded in the time that was asked for" in one["why"]]
    assert found["window"]["from"] >= part.since - 0.5
