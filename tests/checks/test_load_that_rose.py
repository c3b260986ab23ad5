"""Traffic that rises once and stays: no burst, and no second cause beside the engine's slots that it fills."""

from __future__ import annotations

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Fires
from diagnostics.signals.mix import RATE_SHIFT, RATE_SHIFT_CERTAINTY
from tests.builders import Counts, Rows, Stage, SyntheticTriton, model_config
from tests.checks.stated import decided
from tests.checks.test_engine_checks import EngineSays

READS, HALF = 49, 24


def test_a_rise_that_fills_an_engines_slots_is_no_second_cause() -> None:
    stage = Stage("llm", config=model_config("llm", backend="tensorrtllm"))
    says = EngineSays(
        waiting=lambda read: 0 if read <= HALF else 12,
        scheduled=lambda read: 3 if read <= HALF else 8,
        used=lambda read: 20,
        iterations=lambda read: 300.0 * read,
        slots=8,
        blocks=1000,
    )

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        early, late = 10.0 * min(number, HALF), 30.0 * max(number - HALF, 0)
        done, seconds = early + late, early * 1.0 + late * 3.3
        return {key: Counts(requests=done, items=done, executions=done, infer=seconds) for key in rows}

    explanation = SyntheticTriton(models=(stage,), alter=alter, extra_metrics=says.lines).explain(READS)

    assert [finding.check for finding in explanation.actionable] == ["engine-batch-limit"]
    assert any(finding.check == "workload-shift" for finding in explanation.findings)


@pytest.mark.parametrize(("rise", "certainty", "bursts"), [(3.0, 10.0, False), (1.2, 10.0, True), (3.0, 2.0, True)])
def test_a_rise_that_lasts_for_sure_is_no_burst(rise: float, certainty: float, bursts: bool) -> None:
    check = catalogue()["bursty-arrivals"]
    outcome, _ = decided(check, {**check.cases[0].readings, RATE_SHIFT: rise, RATE_SHIFT_CERTAINTY: certainty})

    assert isinstance(outcome, Fires) == bursts
