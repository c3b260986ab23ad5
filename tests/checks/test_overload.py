from __future__ import annotations

import pytest

from tests.builders import Stage, SyntheticTriton, explained, model_config


def overloaded(offered: float) -> SyntheticTriton:
    """Return a server whose one model could batch, does not, and is offered more than it serves."""
    config = model_config("m", groups=({"kind": "KIND_CPU", "count": 1},), max_batch=8)
    stage = Stage("m", rate=33.0, execution=0.03, config=config, queue=3.0, pending_growth=offered - 33.0)
    return SyntheticTriton(models=(stage,))


@pytest.mark.parametrize("offered", [45.0, 60.0, 120.0])
def test_batches_are_the_cause_however_much_more_is_offered_than_they_would_serve(offered: float) -> None:
    (finding,) = explained(overloaded(offered).window()).actionable

    assert finding.check == "batch-size-collapse"
    assert finding.suggestion
    assert finding.suggestion.change


def test_what_batches_save_of_an_overload_is_the_part_that_they_serve() -> None:
    found = [explained(overloaded(offered).window()).actionable[0] for offered in (62.0, 120.0, 480.0)]
    saved = [finding.impact.seconds_per_request for finding in found]

    assert 3.0 > saved[0] > saved[1] > saved[2] > 0
    assert "where it still falls behind, add instances or replicas" in found[2].suggestion.text  # type: ignore[union-attr]
