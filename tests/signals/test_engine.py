"""Engines batch inside: their rows mean little, their own gauges much, and those freeze when idle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.engine_samples import is_engine, shows_its_time
from diagnostics.signals.signal import Missing, Reading
from diagnostics.window.view import ModelView
from tests.builders import Stage, SyntheticTriton, model_config, view_of


def gauges(waiting: Callable[[int], float], iterations: Callable[[int], float]) -> Callable[[int], list[str]]:
    def lines(number: int) -> list[str]:
        own = 'model="llm",version="1"'
        return [
            f'nv_trt_llm_request_metrics{{{own},request_type="waiting"}} {waiting(number):.0f}',
            f'nv_trt_llm_request_metrics{{{own},request_type="active"}} 64',
            f'nv_trt_llm_general_metrics{{{own},general_type="iteration_counter"}} {iterations(number):.0f}',
        ]

    return lines


def view_with(lines: Callable[[int], list[str]] = lambda _: [], backend: str = "tensorrtllm") -> ModelView:
    stage = Stage("llm", rate=5, execution=0.001, config=model_config("llm", backend=backend))
    return view_of(SyntheticTriton(models=(stage,), extra_metrics=lines).window(), "llm")


def waiting(lines: Callable[[int], list[str]]) -> Reading:
    return ENGINE_WAITING.read(view_with(lines))


@pytest.mark.parametrize(
    ("backend", "engine", "shows"),
    [
        ("tensorrtllm", True, True),
        ("fastertransformer", True, True),
        ("vllm", True, False),
        ("python", False, False),
        ("tensorrt", False, False),
    ],
)
def test_engines_are_known_by_their_backend(backend: str, engine: bool, shows: bool) -> None:
    view = view_with(backend=backend)

    assert (is_engine(view), shows_its_time(view)) == (engine, shows)


def test_a_python_model_that_exports_engine_gauges_is_an_engine_that_hides_its_time() -> None:
    view = view_with(gauges(lambda _: 0, lambda i: i), backend="python")

    assert is_engine(view)
    assert not shows_its_time(view)


def test_what_waits_inside_is_the_mean_of_the_reads() -> None:
    found = waiting(gauges(lambda i: 10 + i, lambda i: 100 * i))

    assert (found.value, found.low, found.high) == (16, 10, 22)


def test_gauges_of_an_engine_that_does_not_iterate_are_stale() -> None:
    assert waiting(gauges(lambda _: 33, lambda _: 5000)).missing is Missing.STALE


def test_parts_sampled_apart_never_make_a_negative_wait() -> None:
    assert waiting(gauges(lambda _: -3, lambda i: i)).value == 0


def test_an_engine_without_gauges_is_unknown_not_empty() -> None:
    assert waiting(lambda _: []).missing is Missing.NOT_EXPORTED
