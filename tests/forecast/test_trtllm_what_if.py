"""What-if of a trtllm-serve whose page lacks a family: as predicted with it, or refused with what lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from diagnostics.diagnosis.proposing import ChangeRequest, proposed, swept
from diagnostics.errors import DiagError
from diagnostics.forecast.engine_loop import (
    GUARANTEED_NO_EVICT,
    EngineLimits,
    EngineLoad,
    EngineRun,
    IterationCost,
    TokenCount,
    simulate_engine,
)
from diagnostics.forecast.performance import EngineLatency
from tests.forecast.engine_pages import EVERY, READS, seen_in, trtllm_pages

COST = IterationCost(base=0.012, per_held=2.4e-6, per_token=0.00006)
LIMITS = EngineLimits(
    slots=8, cache_tokens=16_000, block_tokens=16, token_budget=8192, chunked=False, policy=GUARANTEED_NO_EVICT
)
LOAD = EngineLoad(prompt=TokenCount(mean=300, scv=0.3), answer=TokenCount(mean=80, scv=0.3), rate=4.0)
MORE = ChangeRequest(settings=("m.engine.max_batch_size=16",))
ITERATIONS = "how long its iterations take was not read"
REFUSED = {
    "e2e_request_latency_seconds": "the page of trtllm-serve has no trtllm_e2e_request_latency_seconds",
    "generation_tokens_total": "how many tokens answers have was not read",
    "num_generation_requests": ITERATIONS,
    "iteration_latency_seconds": ITERATIONS,
}
FAMILIES = (
    "time_to_first_token_seconds",
    "time_per_output_token_seconds",
    "request_queue_time_seconds",
    "prompt_tokens_total",
    "num_requests_running",
    "num_requests_waiting",
    "max_num_active_requests",
    "max_batch_size_runtime",
    "max_num_tokens_runtime",
    "num_scheduled_requests",
    "num_context_requests",
    "num_paused_requests",
    "total_context_tokens",
    "kv_cache_max_blocks",
    "kv_cache_used_blocks",
    "kv_cache_free_blocks",
    "kv_cache_tokens_per_block",
)


@pytest.fixture(scope="module")
def run() -> EngineRun:
    return simulate_engine(LIMITS, COST, LOAD, seconds=READS * EVERY + 1, warmup=20.0, seed=1)


@pytest.fixture(scope="module")
def truth() -> tuple[float, float]:
    """Return the time to the first token, and per token, with twice as many slots."""
    long = simulate_engine(replace(LIMITS, slots=16), COST, LOAD, seconds=1_000, warmup=50, seed=99)
    ended = [one for one in long.requests if long.begin <= one.ended < long.end]
    first = sum(one.first - one.came for one in ended) / len(ended)
    return first, sum(one.ended - one.first for one in ended) / sum(one.answer - 1 for one in ended)


def predicted(run: EngineRun, *without: str) -> EngineLatency:
    found = proposed(seen_in(trtllm_pages(run, LIMITS, COST, frozenset(without))), MORE).forecast.predicted.engine
    assert found is not None
    return found


@pytest.mark.parametrize("without", FAMILIES)
def test_a_family_that_is_not_needed_changes_little(run: EngineRun, truth: tuple[float, float], without: str) -> None:
    found = predicted(run, without)

    assert found.first_token is not None
    assert found.per_token is not None
    assert found.first_token.value == pytest.approx(truth[0], rel=0.2)
    assert found.per_token.value == pytest.approx(truth[1], rel=0.15)


@pytest.mark.parametrize("without", REFUSED)
def test_a_family_that_is_needed_is_named(run: EngineRun, without: str) -> None:
    with pytest.raises(DiagError, match=REFUSED[without]) as caught:
        predicted(run, without)

    assert caught.value.hint


def test_times_per_token_of_whole_requests_are_not_taken_for_those_of_tokens(run: EngineRun) -> None:
    """The first releases of `trtllm-serve` export times of requests alone, one observation a request."""
    gauges = [one for one in FAMILIES if not one.endswith("_seconds")]
    with pytest.raises(DiagError, match=ITERATIONS):
        predicted(run, *gauges, "generation_tokens_total", "num_generation_requests", "iteration_latency_seconds")


def test_several_tokens_an_iteration_are_refused(run: EngineRun) -> None:
    """As speculative decoding brings them: iterations take twice as long as a token of a request does."""
    slow = trtllm_pages(run, LIMITS, replace(COST, base=2 * COST.base, per_held=2 * COST.per_held))

    with pytest.raises(DiagError, match="requests get several tokens at once"):
        proposed(seen_in(slow), MORE)


def test_the_token_budget_in_effect_is_the_one_of_the_page(run: EngineRun) -> None:
    found = swept(seen_in(trtllm_pages(run, LIMITS, COST)), ChangeRequest(), "engine.max_num_tokens=4096,8192")

    assert found.sweep.now == 1
