"""The table of before, predicted and after: an empty cell has a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.cli.demonstration import DemoRun, comparison
from diagnostics.diagnosis.finding import Finding, Unpredicted
from diagnostics.loadgen.load import LoadSummary, summarise
from tests.builders import Stage, SyntheticTriton, model_config

FULL = Stage("safety", rate=38.0, execution=0.0243, queue=0.17, config=model_config("safety"))


@pytest.fixture(scope="module")
def run() -> DemoRun:
    client: LoadSummary = summarise(())
    return DemoRun(explanation=SyntheticTriton(models=(FULL,)).explain(), client=client)


def table(run: DemoRun, finding: Finding) -> tuple[dict[str, str], str]:
    """Return the column of predictions by row, and the reasons below the table."""
    lines = list(comparison(finding, run, run))
    rows, reasons = lines[1 : lines.index("")], lines[lines.index("") + 1 :]
    return {line[:32].rstrip(): line[44:58].strip() for line in rows}, "\n".join(reasons)


def test_a_row_without_a_prediction_says_why(run: DemoRun) -> None:
    cells, reasons = table(run, run.explanation.actionable[0])
    assert cells["queue of safety"] not in ("", "—")
    assert "" not in cells.values()
    empty = [label.removesuffix(", of which failed") for label, cell in cells.items() if cell == "—"]
    assert len(empty) >= 4
    assert [label for label in empty if label not in reasons] == []


def test_what_cannot_be_forecast_names_the_forecasts_reason(run: DemoRun) -> None:
    finding = replace(run.explanation.actionable[0], effect=Unpredicted(because="the load is not steady"))
    cells, reasons = table(run, finding)
    assert cells["mean of safety (server)"] == "—"
    assert "not predicted: mean of safety (server): the load is not steady" in reasons.splitlines()
