"""A model that compiles or tunes itself for each batch size when that is first used, long after it was loaded."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.signals.new_sizes import NEW_SIZE_SLOWDOWN, NEW_SIZES
from diagnostics.window.window import Window
from tests.builders import Counts, Rows, Stage, SyntheticTriton, explained, model_config, view_of

EVERY, USUAL = 2.0, 0.02
# Batch sizes by the second at which they are used for the first time; 1 was used before.
ARRIVE = {2: 5.0, 4: 13.0, 8: 27.0, 16: 39.0}


def served(first: float, *, arrive: Mapping[int, float] = ARRIVE, elsewhere: float = 0.0) -> Window:
    """Return a model with four executions a second of each size that is in use, of which the first takes so long.

    Args:
        first: seconds of the first execution of a size.
        arrive: when each size is used first.
        elsewhere: seconds that executions of size 1 are longer by from the 20th second to the 28th.

    """

    def alter(number: int, _: Rows) -> Rows:
        at = EVERY * number
        batches = {1: (4 * (at + 100), 4 * (at + 100) * USUAL + elsewhere * min(max(at - 20, 0), 8) * 4)}
        for size, since in arrive.items():
            used = 4.0 * max(at - since, 0.0)
            batches[size] = (used, used * USUAL + (first - USUAL if used else 0.0))
        items = sum(size * count for size, (count, _) in batches.items())
        infer = sum(size * seconds for size, (_, seconds) in batches.items())
        executions = sum(count for count, _ in batches.values())
        kept = {size: batch for size, batch in batches.items() if batch[0]}
        row = Counts(
            requests=items, items=items, executions=executions, seconds=infer, infer=infer, queue=0.0, batches=kept
        )
        return {("m", "1"): row}

    stage = Stage("m", rate=1, config=model_config("m", max_batch=16, batching={}))
    return SyntheticTriton(models=(stage,), interval=EVERY, alter=alter).window(31)


def causes(window: Window) -> list[str]:
    return [one.check for one in explained(window).actionable]


def test_sizes_that_are_slow_when_they_are_first_used_are_a_cold_start() -> None:
    view = view_of(served(2.0), "m")

    assert NEW_SIZES.read(view).value == 4
    assert NEW_SIZE_SLOWDOWN.read(view).value == pytest.approx(2.0 / USUAL)
    (found,) = explained(served(2.0)).actionable
    assert found.check == "cold-start"
    assert "each of 4 batch sizes" in found.summary
    assert found.suggestion is not None
    assert found.suggestion.change is not None


@pytest.mark.parametrize(
    "window",
    [served(USUAL), served(2.0, arrive={4: 13.0}), served(2.0, elsewhere=2.0)],
    ids=["as quick as later", "one size", "slow at other times too"],
)
def test_slow_executions_that_are_not_the_first_of_their_sizes_are_not(window: Window) -> None:
    assert NEW_SIZE_SLOWDOWN.read(view_of(window, "m")).value == 0
    assert "cold-start" not in causes(window)
