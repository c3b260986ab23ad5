"""A card on which some kernel runs all the time may be full or not: without more than its utilization that is open."""

from __future__ import annotations

import pytest

from diagnostics.diagnosis.explanation import Verdict
from tests.builders import Stage, SyntheticTriton, model_config

GPU = ({"kind": "KIND_GPU", "count": 2, "gpus": [0]},)


def behind(utilization: float) -> SyntheticTriton:
    """Return a server whose two instances are always busy on a card that exports its utilization and power."""
    stage = Stage("gen", rate=12, execution=0.16, queue=2.0, config=model_config("gen", groups=GPU))
    lines = (
        f'nv_gpu_utilization{{gpu_uuid="GPU-0"}} {utilization}',
        'nv_gpu_power_usage{gpu_uuid="GPU-0"} 320',
        'nv_gpu_power_limit{gpu_uuid="GPU-0"} 400',
    )
    return SyntheticTriton(models=(stage,), extra_metrics=lambda _: lines)


@pytest.mark.parametrize(("utilization", "named"), [(0.9, ["single-instance-serialization"]), (0.99, [])])
def test_no_instances_are_advised_on_a_card_without_time_left_whose_fill_nobody_measured(
    utilization: float, named: list[str]
) -> None:
    explanation = behind(utilization).explain()

    assert [finding.check for finding in explanation.actionable] == named
    assert (explanation.verdict is Verdict.NO_CLEAR_CAUSE) == (not named)
