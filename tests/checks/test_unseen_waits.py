"""Waits that no counter of Triton holds, or that a phase holds which waits for something else."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.checks.catalogue import catalogue
from diagnostics.checks.check import Expected, Fires, Unknown
from diagnostics.signals.host import COPY_CPU
from diagnostics.signals.settings import INSTANCES, PRESERVES_ORDER
from diagnostics.signals.signal import Signal
from diagnostics.signals.triton import ARRIVAL_RATE
from tests.builders import Stage, SyntheticTriton, explained, host_body, model_config, view_of
from tests.builders_machine import SERVER_PID, START, machine_window, processes
from tests.checks.stated import decided


def firing(check: str) -> Mapping[Signal, float]:
    """Return what a check's first case that fires states."""
    return next(case.readings for case in catalogue()[check].cases if case.expect is Expected.FIRES)


@pytest.mark.parametrize("check", ["single-instance-serialization", "client-or-transport-bound"])
def test_responses_in_order_may_wait_for_each_other(check: str) -> None:
    stated = {**firing(check), INSTANCES: 4, ARRIVAL_RATE: 156}
    in_order, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 1})
    in_any, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 0})
    alone, _ = decided(catalogue()[check], {**stated, PRESERVES_ORDER: 1, INSTANCES: 1})

    assert isinstance(in_order, Unknown)
    assert in_order.signal == PRESERVES_ORDER.name
    assert isinstance(in_any, Fires)
    assert isinstance(alone, Fires)


STAGE = Stage(
    "m",
    rate=10,
    input=0.01,
    execution=0.005,
    output=0.05,
    config=model_config("m", groups=[{"kind": "KIND_CPU", "count": 2}]),
)


@pytest.mark.parametrize(("cores", "found"), [(0.6, ["input-output-cost"]), (0.05, [])], ids=["copies", "waits"])
def test_phases_without_a_processor_are_no_copies(cores: float, found: list[str]) -> None:
    """Ten times 60 ms a second are 0.6 copies at once: they use that many processors, or wait for a disk."""
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None),
        hosts=lambda at: {**host_body(START + at, 0.3), **processes(SERVER_PID, cpu=lambda _: cores * at)},
    )

    assert COPY_CPU.read(view_of(window, "m")).value == pytest.approx(cores / 0.6)
    assert [one.check for one in explained(window).actionable] == found
    assert found or "I/O" in explained(window).next_measurement


def test_what_is_not_known_to_use_a_processor_is_not_named() -> None:
    window = machine_window(
        SyntheticTriton(models=(STAGE,), cpu_busy=None), hosts=lambda at: host_body(START + at, 0.3)
    )

    assert not explained(window).actionable
    assert "I/O" in explained(window).next_measurement
