"""Requests that are slow after each pause, long after the load."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.signals.pauses import AFTER_PAUSE_EXCESS, SLOW_AFTER_PAUSE
from diagnostics.window.window import Window, window_of
from tests.builders import explained, model_config, view_of
from tests.builders_traffic import Did, sent, story_scrapes

READS, EVERY = 30, 2.0
IDLE, WAKES, USUAL = 1.0, 0.8, 0.02


def served(seconds: Callable[[float, int], float], rate: float = 0.8, *, recorded: float = 1.0) -> Window:
    """Return the window of requests at random times; each takes `seconds` of the pause before it and its number."""
    chance, at, reached = random.Random(5), 0.5, 0.0
    found: list[tuple[float, float]] = []
    while at < READS * EVERY - 2:
        took = seconds(max(at - reached, 0.0), len(found))
        found.append((at, took))
        reached = at + took
        at = reached + chance.expovariate(rate)
    steps = []
    for number in range(READS):
        ended = [took for at, took in found if number * EVERY <= at + took < (number + 1) * EVERY]
        mean = sum(ended) / len(ended) if ended else 0.0
        steps.append(Did(requests=len(ended), seconds=mean, infer=mean))
    kept = found[: round(recorded * len(found))]
    scrapes = story_scrapes({("m", "1"): steps}, configs={"m": model_config("m")})
    return window_of([*scrapes, sent([at for at, _ in kept], [took for _, took in kept])])


def wakes(pause: float, _: int) -> float:
    return USUAL + (WAKES if pause > IDLE else 0.0)


def reading(window: Window) -> float | None:
    return SLOW_AFTER_PAUSE.read(view_of(window, "m")).value


def test_pauses_after_which_requests_are_slow_are_named() -> None:
    window = served(wakes)
    explanation: Explanation = explained(window)

    assert reading(window) == pytest.approx(IDLE, abs=0.3)
    assert explanation.verdict is Verdict.NO_CLEAR_CAUSE
    assert "requests to m take 820 ms after pauses of 1" in explanation.reason
    assert "else 20 ms" in explanation.reason
    assert "keep-alive" in explanation.next_measurement
    assert not [one for one in explanation.findings if one.check == "cold-start"]


def test_what_pauses_add_is_spread_over_all_requests() -> None:
    share = AFTER_PAUSE_EXCESS.read(view_of(served(wakes), "m")).value or 0.0

    assert 0.2 * WAKES < share < 0.7 * WAKES


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(lambda _, __: USUAL, id="steady"),
        pytest.param(lambda _, number: USUAL + (WAKES if number % 2 else 0.0), id="slow at any time"),
        pytest.param(lambda _, number: USUAL + (WAKES if number < 6 else 0.0), id="slow at first"),
    ],
)
def test_requests_that_are_slow_for_another_reason_are_not(seconds: Callable[[float, int], float]) -> None:
    assert reading(served(seconds)) == 0


def test_a_record_of_some_clients_does_not_show_when_nobody_asked() -> None:
    assert reading(served(wakes, recorded=0.8)) is None


def test_pauses_of_one_length_tell_nothing_apart() -> None:
    moments = [0.5 + number for number in range(58)]
    record = sent(moments, [0.2 if number % 3 == 0 else 0.02 for number in range(58)])
    story = story_scrapes({("m", "1"): [Did(requests=2, seconds=0.08, infer=0.08)] * 29})

    assert reading(window_of([*story, record])) == 0
