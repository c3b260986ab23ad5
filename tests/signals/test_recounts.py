"""Instances that are taken away and come back, again and again, while requests come as before."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from diagnostics.signals.recounts import FEWER_INSTANCES_QUEUE
from diagnostics.window.window import Window, window_of
from tests.builders import Stage, explained, model_config, view_of
from tests.builders_changes import config_read
from tests.builders_traffic import Did, story_scrapes

CALM = Did(requests=24, seconds=0.08, infer=0.08)
WAITS = Did(requests=24, seconds=1.08, queue=1.0, infer=0.08)
# Reads two seconds apart; a change of instances is seen in the round of a read.
STORY = [*[CALM] * 3, *[WAITS] * 3, *[CALM] * 3, *[WAITS] * 4, *[CALM] * 2, *[WAITS] * 3]
COUNTS = ((0.0, 4), (8.05, 1), (12.05, 4), (20.05, 1), (26.05, 4), (32.05, 1))


def window(story: Sequence[Did] = STORY, counts: Sequence[tuple[float, int]] = COUNTS) -> Window:
    configs = [
        config_read(Stage("m", config=model_config("m", groups=[{"kind": "KIND_CPU", "count": count}])), at)
        for at, count in counts
    ]
    return window_of([*story_scrapes({("m", "1"): story}), *configs])


def read(story: Sequence[Did] = STORY, counts: Sequence[tuple[float, int]] = COUNTS) -> float | None:
    return FEWER_INSTANCES_QUEUE.read(view_of(window(story, counts), "m")).value


def test_what_waits_while_there_are_fewer_is_spread_over_all_requests() -> None:
    assert read() == pytest.approx(10 / 18)


def test_a_wait_at_other_times_is_of_another_cause() -> None:
    assert read([WAITS] * 18) == 0


def test_fewer_that_come_once_or_for_good_are_judged_by_their_own_side() -> None:
    assert read(counts=COUNTS[:3]) is None
    # The load went on for long with all of them: whatever took them away does so no more.
    assert read([*STORY[:13], *[CALM] * 20], COUNTS[:5]) is None


def test_what_takes_instances_away_is_the_cause() -> None:
    (found,) = explained(window()).actionable

    assert (found.check, found.subject.model) == ("single-instance-serialization", "m")
    assert "changed 5 times, between 1 and 4" in found.summary
    assert found.suggestion is not None
    assert "stop what takes instances of m away" in found.suggestion.text
    assert found.suggestion.change is not None


def test_instances_that_follow_the_load_are_no_fault() -> None:
    assert not explained(window([CALM] * 18)).actionable
