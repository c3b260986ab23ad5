"""The effect of a finding about an engine without Triton is that of its simulated iterations, as in `diag whatif`."""

from __future__ import annotations

from diagnostics.diagnosis.explanation import Explanation, explain
from diagnostics.diagnosis.finding import EndToEnd, Unpredicted
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, proposed
from diagnostics.diagnosis.validation import validated
from diagnostics.forecast.engine_loop import EngineLimits, EngineLoad, IterationCost, TokenCount
from tests.forecast.engine_pages import served

COST = IterationCost(base=0.012, per_held=2.4e-6, per_token=0.00006)
LIMITS = EngineLimits(slots=8, cache_tokens=16_000, block_tokens=16)
LOAD = EngineLoad(prompt=TokenCount(mean=300, scv=0.3), answer=TokenCount(mean=80, scv=0.3), rate=4.6)


def shown(seen: SourceEvidence, *, simulate: bool = True) -> Explanation:
    return validated(explain(seen.evidence, seen.window), simulate=simulate)


def test_more_slots_save_as_much_as_a_what_if_says() -> None:
    seen = served(LIMITS, COST, LOAD)
    (finding,) = shown(seen).actionable
    forecast = proposed(seen, ChangeRequest(settings=("m.engine.max_batch_size=32",))).forecast

    assert finding.check == "engine-batch-limit"
    assert "--max-num-seqs 32" in str(finding.suggestion)
    assert isinstance(finding.effect, EndToEnd)
    assert finding.effect.mean == forecast.predicted.mean
    assert finding.effect.now_mean == forecast.measured_mean
    assert finding.effect.saving is not None
    assert finding.effect.saving.high is not None
    assert finding.effect.saving.high <= finding.effect.now_mean - finding.effect.mean.low


def test_an_effect_is_not_predicted_where_no_iteration_was_timed() -> None:
    (finding,) = shown(served(LIMITS, COST, LOAD, tokens=False)).actionable

    assert isinstance(finding.effect, Unpredicted)
    assert finding.effect.because.startswith("how long its iterations take was not read")


def test_an_effect_is_not_predicted_where_nothing_may_be_simulated() -> None:
    (finding,) = shown(served(LIMITS, COST, LOAD), simulate=False).actionable

    assert isinstance(finding.effect, Unpredicted)
    assert "can be saved" in finding.effect.because
