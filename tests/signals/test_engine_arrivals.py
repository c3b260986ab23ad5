"""What comes to an engine that is called itself: what it took in, not when it answered."""

from __future__ import annotations

import pytest

from diagnostics.signals.arrivals import BURST_SIZE
from diagnostics.signals.engine_iterations import ENGINE_JOINING_SECONDS
from diagnostics.signals.signal import Missing
from diagnostics.window.view import ModelView
from tests.builders import Alter, Counts, Rows, Stage, SyntheticTriton, model_config, view_of
from tests.checks.test_engine_checks import EngineSays

READS, LUMP, JOINING, BASE = 41, 20, 0.1, 0.01


def in_lumps() -> Alter:
    """Return an alteration: ten requests a read come evenly, and every second read all of them end."""

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        done = float(number // 2 * LUMP)
        return {key: Counts(requests=done, items=done, executions=done, infer=done * 4.0) for key in rows}

    return alter


def engine(held: bool) -> ModelView:
    says = EngineSays(
        waiting=lambda read: 0,
        scheduled=lambda read: 1 + read % 2 * LUMP / 2,
        used=lambda read: 10,
        iterations=lambda read: 100.0 * read,
        slots=64,
        blocks=1000,
    )
    stage = Stage("llm", config=model_config("llm", backend="tensorrtllm"))
    lines = says.lines if held else lambda _: ()
    return view_of(SyntheticTriton(models=(stage,), alter=in_lumps(), extra_metrics=lines).window(READS), "llm")


def test_requests_that_come_evenly_and_end_together_are_no_burst() -> None:
    index = BURST_SIZE.read(engine(held=True)).value

    assert index is not None
    assert index < 1


def test_without_an_engines_gauges_it_is_unknown_when_its_requests_came() -> None:
    assert BURST_SIZE.read(engine(held=False)).missing is Missing.NOT_EXPORTED


def test_generations_longer_than_a_stretch_join_when_they_are_scheduled_not_when_they_end() -> None:
    joined = [4, 1, 3, 2] * 5
    runs = [3.0]
    iterations = [0.0]
    ended = [0, 2, 5, 1] * 5
    for came, left in zip(joined, ended, strict=True):
        runs.append(runs[-1] + came - left)
        iterations.append(iterations[-1] + (5.0 - came * JOINING) / BASE)
    done = [float(sum(ended[:read])) for read in range(len(runs))]

    def alter(number: int, rows: dict[tuple[str, str], Counts]) -> Rows:
        return {key: Counts(requests=done[number], items=done[number], infer=done[number] * 8) for key in rows}

    lift = 1 - min(runs)
    says = EngineSays(
        waiting=lambda read: 0,
        scheduled=lambda read: runs[read] + lift,
        used=lambda read: 10,
        iterations=lambda read: round(iterations[read]),
        slots=64,
        blocks=1000,
    )
    stage = Stage("llm", config=model_config("llm", backend="tensorrtllm"))
    window = SyntheticTriton(models=(stage,), alter=alter, extra_metrics=says.lines).window(len(runs))
    found = ENGINE_JOINING_SECONDS.read(view_of(window, "llm", None))

    assert found.value == pytest.approx(JOINING, rel=0.01)
