"""A full GPU beside cards that idle: they are named where the work could go."""

from __future__ import annotations

import pytest

from tests.builders import Stage, SyntheticTriton, explained, model_config
from tests.builders_machine import Json, machine_window

ON_FIRST = model_config("safety", groups=[{"kind": "KIND_GPU", "count": 1, "gpus": [0]}])
SAFETY = Stage("safety", rate=38, execution=0.0255, queue=0.8, config=ON_FIRST)


def card(percent: int) -> Json:
    return {"utilization_gpu_percent": percent, "gpm": {"sm_util": percent, "graphics_util": percent}}


def advised(*others: int) -> str:
    """Return what is advised where the model's card is full and the others are used so many per cent of the time."""
    window = machine_window(SyntheticTriton(models=(SAFETY,)), gpus=lambda _: [card(99), *map(card, others)])
    (finding,) = explained(window).actionable
    assert finding.check == "gpu-saturated"
    assert finding.suggestion is not None
    return finding.suggestion.text


def test_three_cards_that_idle_beside_a_full_one_are_named() -> None:
    assert "(GPU-1, GPU-2, GPU-3 idle: add to instance_group.gpus)" in advised(0, 0, 2)


@pytest.mark.parametrize("others", [(), (60,), (60, 90, 99)])
def test_cards_that_work_are_not_offered(others: tuple[int, ...]) -> None:
    assert "idle" not in advised(*others)
