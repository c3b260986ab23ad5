"""The engine behind an entry of Triton on its iteration loop, of recordings with a real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, proposed, swept
from diagnostics.errors import UsageError
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.forecast.performance import saving
from diagnostics.wire.capture import open_capture
from tests.builders import Stage, SyntheticTriton, model_config
from tests.forecast.engine_pages import seen_in

FIXTURES = Path(__file__).parents[2] / "fixtures"


def recorded(path: str) -> SourceEvidence:
    return seen_in(list(open_capture(FIXTURES / path).scrapes()))


@pytest.fixture(scope="module")
def steady() -> SourceEvidence:
    return recorded("engine/engine-0102.tar.xz")


def test_half_the_tokens_of_answers_take_half_of_the_time(steady: SourceEvidence) -> None:
    found = proposed(steady, ChangeRequest(output_tokens="0.5x", entry="chat")).forecast
    before, after = found.baseline, found.predicted

    assert before.mean is not None
    assert after.mean is not None
    assert before.mean.value == pytest.approx(found.measured_mean, rel=0.1)
    assert after.mean.value == pytest.approx(before.mean.value / 2, rel=0.1)
    assert before.engine is not None
    assert after.engine is not None
    assert after.engine.per_token is not None
    assert before.engine.per_token is not None
    assert after.engine.per_token.value == pytest.approx(before.engine.per_token.value, rel=0.1)


def test_other_lengths_cost_what_the_interval_of_the_difference_holds(steady: SourceEvidence) -> None:
    found = proposed(steady, ChangeRequest(output_tokens="2x", entry="chat")).forecast
    longer = saving(found.baseline, found.predicted)

    assert longer is not None
    assert longer.high is not None
    assert longer.low <= longer.value <= longer.high < 0
    assert any("leave out how their queues vary" in one for one in found.assumptions)


def test_what_cannot_keep_up_rests_on_nothing_of_the_engine_that_is_not_shown() -> None:
    evidence = recorded("captures/cpu-handed-single-instance.tar.xz")
    found = proposed(evidence, ChangeRequest(rate="2x", entry="chat")).forecast

    assert not found.predicted.stable
    assert found.baseline.engine is None
    assert not any("first token" in one or "iteration takes" in one for one in found.assumptions)


def test_a_change_of_load_shows_first_tokens_and_keeps_the_whole(steady: SourceEvidence) -> None:
    found = proposed(steady, ChangeRequest(rate="2x", entry="chat")).forecast.predicted
    sweep = swept(steady, ChangeRequest(entry="chat"), "rate=1x,2x").sweep

    assert found.engine is not None
    assert found.engine.first_token is not None
    assert found.engine.first_token.low <= found.engine.first_token.value
    assert found.mean is not None
    assert sweep.points[1].performance.mean == found.mean
    assert sweep.points[1].performance.engine == found.engine


def test_a_change_of_another_stage_leaves_the_engine_as_it_was_measured(steady: SourceEvidence) -> None:
    found = proposed(steady, ChangeRequest(settings=("encoder.instance_group.count=2",), entry="chat")).forecast

    assert found.predicted.engine is None
    assert found.predicted.mean is not None


def test_lengths_are_refused_where_the_load_was_not_steady() -> None:
    with pytest.raises(Unpredictable, match="its load was not steady") as caught:
        proposed(recorded("captures/cpu-handed-engine-slots.tar.xz"), ChangeRequest(output_tokens="2x"))

    assert "record a window" in caught.value.hint


def test_answers_that_no_cache_holds_are_refused_before_they_are_simulated_for_minutes(steady: SourceEvidence) -> None:
    with pytest.raises(Unpredictable, match="its simulation takes more than 300000 steps"):
        proposed(steady, ChangeRequest(output_tokens="1000000", entry="chat"))


def test_settings_whose_part_the_loop_does_not_know_are_refused_with_lengths(steady: SourceEvidence) -> None:
    more = ("engine.parameters.kv_cache_free_gpu_mem_fraction=0.5",)
    with pytest.raises(Unpredictable, match="together are not predicted"):
        proposed(steady, ChangeRequest(settings=more, output_tokens="2x", entry="chat"))


def test_an_entry_without_an_engine_has_no_lengths() -> None:
    stage = Stage("m", rate=20, execution=0.02, config=model_config("m"))
    seen = seen_in(SyntheticTriton(models=(stage,), before=100.0, interval=5.0).scrapes())

    with pytest.raises(UsageError, match="no engine behind this entry point has tokens"):
        proposed(seen, ChangeRequest(output_tokens="2x"))
