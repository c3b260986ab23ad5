from __future__ import annotations

from random import Random

import pytest

from diagnostics.signals.arrivals import CONCURRENCY, CONCURRENCY_STEADINESS
from diagnostics.window.view import ModelView
from diagnostics.window.window import window_of
from tests.builders import Stage, SyntheticTriton, model_config, view_of
from tests.builders_traffic import sent


def under(starts: list[float], seconds: float) -> ModelView:
    triton = SyntheticTriton(models=(Stage("m", rate=10, execution=0.09, config=model_config("m")),))
    return view_of(window_of([*triton.scrapes(), sent(starts, seconds, "m")]), "m", None)


def test_clients_that_always_wait_keep_their_number_constant() -> None:
    view = under([i * 0.1 for i in range(600)], 0.0999)

    assert CONCURRENCY.read(view).value == 1
    assert CONCURRENCY_STEADINESS.read(view).value == pytest.approx(0.999, abs=1e-3)


def test_requests_that_come_by_chance_do_not() -> None:
    random = Random(1)
    view = under(sorted(random.uniform(0, 60) for _ in range(600)), 0.15)

    assert (CONCURRENCY.read(view).value or 0) >= 3
    assert (CONCURRENCY_STEADINESS.read(view).value or 1) < 0.5


def test_a_handful_of_requests_tells_nothing() -> None:
    assert CONCURRENCY.read(under([1.0, 2.0], 0.1)).value is None
