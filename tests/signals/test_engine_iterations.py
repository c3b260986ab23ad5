from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.signals.engine_iterations import ENGINE_AT_WORK, ENGINE_ITERATION_RATE, ENGINE_JOINING_SECONDS
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from tests.builders import START, Counts, Stage, SyntheticTriton, model_config, view_of

JOINING, BASE = 0.004, 0.006


def reads(scheduled: list[int], requests: list[float], *, set_back: float = 0.0) -> ModelView:
    """Return an engine that takes so many requests in each 5 s, each of which adds to an iteration.

    Halfway the wall clock is set back by so many seconds, the steady one is not.
    """
    iterations = [0.0]
    for count in requests:
        iterations.append(iterations[-1] + (5.0 - count * JOINING) / BASE)

    def gauges(number: int) -> list[str]:
        own = 'model="llm",version="1"'
        return [
            f'nv_trt_llm_request_metrics{{{own},request_type="scheduled"}} {scheduled[number]}',
            f'nv_trt_llm_request_metrics{{{own},request_type="active"}} {scheduled[number]}',
            f'nv_trt_llm_general_metrics{{{own},general_type="iteration_counter"}} {iterations[number]:.6f}',
        ]

    def counted(number: int, rows: dict[tuple[str, str], Counts]) -> dict[tuple[str, str], Counts]:
        done = sum(requests[:number])
        return {("llm", "1"): Counts(requests=done, items=done, seconds=done)}

    stage = Stage("llm", rate=5, execution=0.001, config=model_config("llm", backend="tensorrtllm"))
    triton = SyntheticTriton(models=(stage,), alter=counted, extra_metrics=gauges)
    scrapes = triton.scrapes(len(scheduled))
    return view_of(
        window_of(replace(one, at=one.at - set_back * (one.at > START + 30)) for one in scrapes), "llm", None
    )


def test_what_a_request_adds_is_read_from_fewer_iterations_where_more_join() -> None:
    view = reads([3] * 13, [100.0 + 10 * (i % 5) for i in range(12)])
    found = ENGINE_JOINING_SECONDS.read(view)

    assert found.value == pytest.approx(JOINING, rel=0.01)
    assert ENGINE_ITERATION_RATE.read(view).value == pytest.approx((5 - 118.33 * JOINING) / BASE / 5, rel=0.01)


def test_two_reads_that_a_clock_that_was_set_gave_one_time_are_as_far_apart_as_they_were() -> None:
    view = reads([3] * 13, [100.0 + 10 * (i % 5) for i in range(12)], set_back=5.0)

    assert ENGINE_JOINING_SECONDS.read(view).value == pytest.approx(JOINING, rel=0.01)


def test_the_share_at_work_is_of_the_reads_and_as_uncertain_as_they_are_few() -> None:
    found = ENGINE_AT_WORK.read(reads([3, 0, 2, 4] * 3, [100.0] * 11))

    assert found.value == pytest.approx(0.75)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.5
    assert found.high > 0.9
