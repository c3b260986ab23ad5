from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from diagnostics.forecast.blocks import (
    ObservedInterval,
    block_length,
    mean_of,
    quantile_of,
    relaxation_seconds,
    stretches,
    student,
)
from diagnostics.signals.signal import Subject
from tests.builders import SERVER, Stage, SyntheticTriton, on


def wandering(random: Random, memory: int, cells: int) -> list[ObservedInterval]:
    """Return stretches of ten requests whose mean takes a new level every `memory` stretches."""
    levels = [random.uniform(0.05, 0.15) for _ in range(cells // memory + 1)]
    shift = random.randrange(memory)
    return [
        ObservedInterval(seconds=1.0, requests=10, spent=10 * levels[(at + shift) // memory]) for at in range(cells)
    ]


def covered(memory: int, block: float, cells: int) -> float:
    found = [mean_of(wandering(Random(seed), memory, cells), block, seed, draws=100) for seed in range(80)]
    return fmean(one is not None and one.low <= 0.1 <= (one.high or 0) for one in found)


def test_blocks_longer_than_the_memory_hold_the_mean_as_often_as_they_say() -> None:
    assert covered(memory=5, block=10.0, cells=120) >= 0.8


def test_blocks_shorter_than_the_memory_would_promise_too_much() -> None:
    assert covered(memory=12, block=1.0, cells=60) < 0.7


def test_a_window_of_fewer_than_four_blocks_has_no_interval() -> None:
    cells = wandering(Random(1), 1, 60)

    assert mean_of(cells, 15.0) is not None
    assert mean_of(cells, 15.1) is None
    assert mean_of(cells, float("inf")) is None
    assert mean_of([], 1.0) is None


@pytest.mark.parametrize(("cells", "length"), [(4, 1), (10, 2), (27, 3), (64, 4)])
def test_blocks_grow_with_the_cube_root_of_the_window_where_four_remain(cells: int, length: int) -> None:
    assert block_length([ObservedInterval(seconds=1.0, requests=1, spent=0.1)] * cells, 0.0) == length


def test_few_blocks_widen_the_interval_as_students_distribution_does() -> None:
    # Tables of Student's distribution: 2.353, 2.015, 1.812 and 1.697.
    assert [round(student(freedom), 2) for freedom in (3, 5, 10, 30)] == [2.35, 2.01, 1.81, 1.70]


def test_a_queue_remembers_longer_the_fuller_it_is() -> None:
    assert relaxation_seconds(service=0.024, servers=1, busy_share=0.95) == pytest.approx(37, rel=0.02)
    assert relaxation_seconds(service=0.024, servers=3, busy_share=0.0) == pytest.approx(0.008)
    assert relaxation_seconds(service=0.024, servers=1, busy_share=1.0) == float("inf")


def test_stretches_add_up_to_what_the_counters_say() -> None:
    evidence = SyntheticTriton(models=(Stage("m", rate=40, execution=0.024, queue=0.1),)).evidence()
    found = stretches(evidence, Subject(server=SERVER, model="m"))

    assert len(found) == 12
    assert sum(one.requests for one in found) == pytest.approx(40 * 60)
    mean = mean_of(found, 5.0)
    assert mean is not None
    assert mean.value == pytest.approx(0.124, rel=1e-3)


def test_without_traces_no_quantile_is_given() -> None:
    evidence = SyntheticTriton(models=(Stage("m", rate=40, execution=0.024),)).evidence()

    assert quantile_of(evidence, on("m"), 0.95, 5.0) is None
