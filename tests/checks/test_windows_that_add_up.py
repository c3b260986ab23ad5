"""Batching windows of several stages that are each a small part of a request, and together a large one."""

from __future__ import annotations

import pytest

from diagnostics.window.window import window_of
from tests.builders import Stage, SyntheticTriton, chain, explained, model_config

CHECK = "batch-window-mistuned"
NAMES = ("a", "b", "c", "d", "e")


def named(window: float, *, busy: int = 0) -> list[str]:
    """Return the stages whose windows are named, of five that work 100 ms each; so many of them have one instance."""
    stages = [
        Stage(
            name,
            rate=10,
            execution=0.1,
            queue=window,
            config=model_config(
                name,
                max_batch=8,
                batching={"max_queue_delay_microseconds": round(window * 1e6)},
                groups=[{"kind": "KIND_CPU", "count": 1 if number < busy else 4}],
            ),
        )
        for number, name in enumerate(NAMES)
    ]
    chat = Stage("chat", rate=10, overhead=5 * (0.1 + window), config=chain("chat", *NAMES))
    found = explained(window_of(SyntheticTriton(models=(chat, *stages), cpu_busy=0.2).scrapes()))
    return [one.subject.model or "" for one in found.actionable if one.check == CHECK]


@pytest.mark.parametrize(("window", "stages"), [(0.03, 5), (0.012, 0)], ids=["a quarter", "a tenth"])
def test_windows_are_named_where_all_of_them_are_worth_it(window: float, stages: int) -> None:
    assert len(named(window)) == stages


def test_the_queue_of_a_busy_stage_is_no_window() -> None:
    assert named(0.03, busy=4) == []
