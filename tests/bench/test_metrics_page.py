"""What a round of one server costs the service's metrics page, as a part of writing all of it in the same run."""

from __future__ import annotations

import time
from dataclasses import replace

from diagnostics.service.http.metrics import Exposition
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation, LiveState
from diagnostics.window.window import window_of
from tests.bench.conftest import Goals
from tests.builders import Stage, SyntheticTriton, explained

SERVERS, MODELS, ROUNDS, KIND = 50, 10, 5, "text/plain"


def _verdicts() -> dict[str, Evaluation]:
    models = tuple(Stage(f"m{number}", rate=10, execution=0.01) for number in range(MODELS))
    scrapes, found = SyntheticTriton(models=models, interval=15.0).scrapes(8), dict[str, Evaluation]()
    for number in range(SERVERS):
        window = window_of([replace(one, server=f"triton-{number}") for one in scrapes])
        explanation = explained(window)
        found[f"d{number}"] = Evaluation(
            deployment=f"d{number}", at=window.end, took=0.0, lag=0.0, explanation=explanation, changes=()
        )
    return found


def test_one_new_verdict_of_fifty_is_written_in_a_fifth_of_the_whole_page(goals: Goals) -> None:
    verdicts, whole, one = _verdicts(), list[float](), list[float]()
    at = verdicts["d0"].at
    for _ in range(ROUNDS):
        page = Exposition(OwnMetrics(), window=300.0, clock=lambda: at)
        page.update(LiveState(version=1, evaluations=verdicts))
        begun = time.process_time()
        assert page.page(KIND)
        whole.append(time.process_time() - begun)
        page.update(LiveState(version=2, evaluations={**verdicts, "d0": replace(verdicts["d0"], lag=1.0)}))
        begun = time.process_time()
        page.render()
        one.append(time.process_time() - begun)
    ratio = min(one) / min(whole)
    print(f"\n{SERVERS} servers: {min(whole) * 1e3:.0f} ms for all, {min(one) * 1e3:.1f} ms for one")
    goals.at_most("writing one new verdict of fifty, parts of the whole page", ratio, 0.2)
