"""Verbs that compare or forecast look at the time since settings were changed in a window, and tell of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from diagnostics.cli import diff, evidence_source, verify, whatif
from diagnostics.cli.evidence_source import EvidenceSource
from diagnostics.cli.sources import WindowOptions
from diagnostics.window.window import window_of
from diagnostics.wire.capture import CaptureWriter
from diagnostics.wire.records import Scrape
from exporters.sources.access import SourceOptions
from tests.builders import SERVER, START, Stage, explained, model_config
from tests.builders_changes import changed_in_place

REPORTED = "settings of safety changed 13:47:45: count 1 → 2; what was before is left out"
CHANGE = START + 65.0


def safety(count: int, queue: float) -> Stage:
    made = model_config("safety", groups=({"kind": "KIND_CPU", "count": count},))
    return Stage("safety", rate=40.0, execution=0.0243, queue=queue, config=made)


FULL, FREE = safety(1, 0.4), safety(2, 0.002)


def recorded(path: Path, scrapes: list[Scrape]) -> Path:
    with CaptureWriter(path, path.name, [SERVER], 5.0) as writer:
        for scrape in scrapes:
            writer.add(scrape)
    return path


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    return recorded(tmp_path / "changed", changed_in_place(FULL, FREE, reads=40))


@pytest.fixture
def steady(tmp_path: Path) -> Path:
    return recorded(tmp_path / "steady", changed_in_place(FULL, FULL, reads=40))


def report(command: Any, *arguments: object) -> tuple[Any, str]:
    result = CliRunner().invoke(command, [*map(str, arguments), "--output", "json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


def test_a_forecast_is_of_the_settings_since_the_change(changed: Path) -> None:
    stated, reported = report(whatif.command, changed, "--set", "safety.instance_group.count=4")
    assert stated["window"]["from"] == pytest.approx(CHANGE, abs=1.0)
    assert [(one["before"], one["after"]) for one in stated["settings"]] == [("2", "4")]
    assert stated["measured"]["mean_seconds"] < 0.1  # it was 0.4 before
    assert reported == f"diag: {changed}: {REPORTED}\n"


def test_nothing_is_reported_where_nothing_was_changed(steady: Path) -> None:
    stated, reported = report(whatif.command, steady, "--set", "safety.instance_group.count=4")
    assert stated["window"]["from"] == pytest.approx(START, abs=1.0)
    assert reported == ""


def test_both_sides_of_a_comparison_are_of_one_setting_each(changed: Path, steady: Path) -> None:
    stated, reported = report(verify.command, steady, changed)
    assert [(one["before"], one["after"]) for one in stated["configuration"]] == [("1", "2")]
    assert REPORTED in reported
    stated, reported = report(diff.command, steady, changed)
    assert stated["after"]["from"] == pytest.approx(CHANGE, abs=1.0)
    assert REPORTED in reported


def test_of_a_server_and_a_history_the_time_since_the_change_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The explanation itself is of the time before, where the fault was."""
    read = explained(window_of(changed_in_place(FULL, FREE)))
    monkeypatch.setattr(evidence_source, "explained", lambda _: (read, False))
    source = EvidenceSource(
        names=("triton:8000",),
        question=WindowOptions(),
        window=None,
        history=None,
        deployment=None,
        config_file=None,
        options=SourceOptions(),
    )
    seen = evidence_source.see(source)
    assert seen.window.start == pytest.approx(CHANGE, abs=1.0)
    assert REPORTED in capsys.readouterr().err
