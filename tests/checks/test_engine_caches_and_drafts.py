"""A prefix cache that holds nothing of the prompts, and drafts that take more than they save, of `trtllm-serve`."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.window.window import window_of
from diagnostics.wire.records import BodyKind, Scrape
from tests.builders import explained

LABELS = '{engine_type="trtllm",model_name="m"}'
READS, RATE, BUDGET = 60, 10.0, 4096
# Every iteration is full of prompts, and requests wait to be read.
CUT = {
    "num_requests_running": 12,
    "num_requests_waiting": 20,
    "max_batch_size_runtime": 64,
    "max_num_tokens_runtime": BUDGET,
    "num_scheduled_requests": 12,
    "num_context_requests": 4,
    "num_generation_requests": 8,
    "total_context_tokens": BUDGET - 8,
    "kv_cache_max_blocks": 4000,
    "kv_cache_used_blocks": 400,
    "kv_cache_free_blocks": 3600,
    "kv_cache_tokens_per_block": 32,
}
# Hardly any prompt, and nobody waits.
CALM = {**CUT, "num_requests_waiting": 0, "num_context_requests": 0, "total_context_tokens": 0}


def shown(gauges: Mapping[str, float], wait: float, counters: Mapping[str, float]) -> Explanation:
    """Return what is said of an engine; `counters` grow by so much with each request."""
    found = []
    for second in range(READS):
        done = RATE * (second + 100)
        sums = {"e2e_request_latency": wait + 1.2, "request_queue_time": wait, "request_inference_time": 1.2}
        lines = [f"trtllm_{name}{LABELS} {value}" for name, value in gauges.items()]
        lines += [f"trtllm_{name}{LABELS} {each * done}" for name, each in counters.items()]
        for name, mean in sums.items():
            lines += [f"trtllm_{name}_seconds_sum{LABELS} {mean * done}", f"trtllm_{name}_seconds_count{LABELS} {done}"]
        at, body = 1e9 + second, "\n".join([*lines, ""]).encode()
        found.append(Scrape(server="llm", kind=BodyKind.METRICS, at=at, mono=at, body=body))
    return explained(window_of(found))


@pytest.mark.parametrize(("reused", "named"), [(0.0, True), (1.0, False)])
def test_a_prefix_cache_that_holds_nothing_of_the_prompts_is_named_where_these_are_the_cause(
    reused: float, named: bool
) -> None:
    found = shown(CUT, 2.0, {"kv_cache_missed_blocks_total": 12.0, "kv_cache_reused_blocks_total": reused})
    (finding,) = found.actionable

    assert finding.check == "engine-token-budget"
    assert ("its prefix cache held nothing of the prompts" in str(finding.suggestion)) == named


def test_a_counter_of_hits_that_was_never_raised_is_zero() -> None:
    (finding,) = shown(CUT, 2.0, {"kv_cache_missed_blocks_total": 12.0}).actionable

    assert "its prefix cache held nothing of the prompts" in str(finding.suggestion)


def test_a_prefix_cache_that_holds_nothing_is_no_matter_where_prompts_are_not_the_cause() -> None:
    found = shown(CALM, 0.0, {"kv_cache_missed_blocks_total": 12.0})

    assert "prefix cache" not in f"{found.reason} {found.next_measurement} {found.findings} {found.symptoms}"


@pytest.mark.parametrize(
    ("at_once", "share", "named"),
    [(1.05, 0.4, True), (1.3, 0.4, True), (2.4, 0.4, False), (1.6, 0.4, False), (0.0, 0.0, False)],
    ids=["hardly accepted", "too seldom accepted", "pays", "nearly even", "no drafts"],
)
def test_drafts_that_take_more_than_they_save_are_named(at_once: float, share: float, named: bool) -> None:
    drafts = {"spec_decode_acceptance_length": at_once, "spec_decode_draft_overhead": share}
    found = shown({**CALM, **drafts}, 0.0, {})

    assert ("drafts of the engine of m take more than they save" in found.reason) == named
    assert (found.verdict is Verdict.NO_CLEAR_CAUSE) == named
    if named:
        assert "turn speculative decoding of m off on one replica" in found.next_measurement
