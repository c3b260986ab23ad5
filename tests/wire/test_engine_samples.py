"""An engine's state under its three spellings: Triton's gauges in all releases, trtllm-serve's page and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.errors import MalformedBody
from diagnostics.wire.engine import EngineSample, engine_places, sample_of_page, samples_of_iterations, shows_engine
from diagnostics.wire.exposition import ExpositionReader


def page(family: str, label: str, values: Mapping[str, float], model: str = "llm", version: str = "1") -> str:
    return "".join(
        f'{family}{{model="{model}",{label}="{key}",version="{version}"}} {value}\n' for key, value in values.items()
    )


def requests(**values: float) -> str:
    return page("nv_trt_llm_request_metrics", "request_type", values)


def blocks(**values: float) -> str:
    return page("nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", values)


def batcher(**values: float) -> str:
    return page("nv_trt_llm_inflight_batcher_metrics", "inflight_batcher_specific_metric", values)


def sample(text: str, model: str = "llm", version: str | None = "1") -> EngineSample | None:
    snapshot = ExpositionReader().read(text.encode())
    return sample_of_page(snapshot, engine_places(snapshot.layout, model, version), at=7.0)


def known(text: str) -> EngineSample:
    found = sample(text)
    assert found is not None
    return found


def test_a_current_page_is_read_whole() -> None:
    found = known(
        requests(active=9, max=32, scheduled=4, context=1, waiting=5)
        + blocks(max=12, used=10, free=2, tokens_per=64, reused=3, fraction=0.83)
        + batcher(total_context_tokens=128, generation_requests=3, micro_batch_id=0, paused_requests=0)
        + page("nv_trt_llm_general_metrics", "general_type", {"timestamp": 1.7e9, "iteration_counter": 77})
    )

    assert (found.at, found.waiting, found.scheduled, found.slots, found.context) == (7.0, 5, 4, 32, 1)
    assert (found.kv_blocks, found.kv_used, found.kv_free, found.tokens_per_block) == (12, 10, 2, 64)
    assert (found.context_tokens, found.generation, found.paused, found.iterations) == (128, 3, 0, 77)
    assert not found.static_batching


def test_what_waits_is_what_is_held_and_not_scheduled_before_it_was_exported() -> None:
    assert known(requests(active=99, max=2048, scheduled=5, context=0)).waiting == 94


def test_parts_sampled_apart_never_make_a_negative_wait() -> None:
    assert known(requests(active=0, scheduled=1)).waiting == 0
    assert known(requests(active=0, scheduled=1, waiting=-1)).waiting == 0


@pytest.mark.parametrize(("free", "used"), [(9.0, None), (None, 31.0)])
def test_a_missing_part_of_the_cache_follows_from_the_other(free: float | None, used: float | None) -> None:
    stated = {key: value for key, value in {"max": 40.0, "free": free, "used": used}.items() if value is not None}
    found = known(blocks(**stated))

    assert (found.kv_used, found.kv_free) == (31, 9)


def test_paused_requests_had_another_name() -> None:
    assert known(batcher(terminated_requests=4)).paused == 4


def test_static_batching_is_known_by_its_own_family() -> None:
    first = page(
        "nv_trt_llm_v1_metrics", "v1_specific_metric", {"total_context_tokens": 64, "empty_generation_slots": 3}
    )
    found = known(requests(active=8, scheduled=8) + first)

    assert found.static_batching
    assert found.context_tokens == 64


def test_another_model_or_version_is_not_this_one() -> None:
    text = requests(active=3, scheduled=3)

    assert sample(text, model="other") is None
    assert sample(text, version="2") is None
    assert sample(text, version=None) is not None


@pytest.mark.parametrize("prefix", ["", "trtllm_", "trtllm:"])
def test_the_page_of_trtllm_serve_is_read_with_any_prefix(prefix: str) -> None:
    gauges = {
        "num_requests_running": 8,
        "num_requests_waiting": 5,
        "num_scheduled_requests": 6,
        "max_batch_size_runtime": 6,
        "max_num_active_requests": 64,
        "max_num_tokens_runtime": 8192,
        "kv_cache_max_blocks": 100,
        "kv_cache_used_blocks": 40,
        "iteration_latency_seconds": 0.02,
    }
    text = "".join(f'{prefix}{name}{{model_name="undefined"}} {value}\n' for name, value in gauges.items())
    found = sample(text, model="undefined", version="")

    assert found is not None
    assert (found.waiting, found.scheduled, found.slots, found.token_budget) == (7, 6, 6, 8192)
    assert (found.kv_free, found.iteration_seconds) == (60, 0.02)


def test_an_engine_is_known_by_its_gauges_or_by_the_page_of_its_server() -> None:
    def shows(text: str, model: str) -> bool:
        return shows_engine(ExpositionReader().read(text.encode()).layout, model)

    served = 'e2e_request_latency_seconds_count{model_name="m"} 4\n'
    assert shows(requests(active=1), "llm")
    assert shows(served, "m")
    assert not shows(requests(active=1), "m")
    assert not shows(served.replace("model_name", "model"), "m")


ITERATION = {
    "iter": 5,
    "iterLatencyMS": 21.5,
    "numActiveRequests": 8,
    "numQueuedRequests": 2,
    "maxNumActiveRequests": 64,
    "maxBatchSizeRuntime": 8,
    "maxNumTokensRuntime": 2048,
    "kvCacheStats": {"maxNumBlocks": 40, "freeNumBlocks": 9, "usedNumBlocks": 31, "tokensPerBlock": 64},
    "inflightBatchingStats": {
        "numScheduledRequests": 5,
        "numContextRequests": 1,
        "numGenRequests": 4,
        "numCtxTokens": 90,
    },
}


def test_iterations_are_read_from_json() -> None:
    (found,) = samples_of_iterations(json.dumps([ITERATION]).encode(), at=3.0)

    assert found.iteration_seconds == pytest.approx(0.0215)
    assert (found.iterations, found.waiting, found.slots) == (5, 5, 8)
    assert (found.scheduled, found.context, found.generation, found.context_tokens) == (5, 1, 4, 90)
    assert (found.kv_blocks, found.kv_used, found.kv_free, found.token_budget) == (40, 31, 9, 2048)


def test_a_limit_of_zero_is_one_that_the_backend_does_not_fill_in() -> None:
    unfilled = {**ITERATION, "maxBatchSizeRuntime": 0, "maxNumTokensRuntime": 0}
    (found,) = samples_of_iterations(json.dumps([unfilled]).encode(), at=3.0)

    assert (found.slots, found.token_budget) == (64, None)


def test_the_scheduler_of_vllm_is_read_from_tritons_page() -> None:
    labels = '{model="llm",version="1"}'
    text = f"vllm:num_requests_running{labels} 6\nvllm:num_requests_waiting{labels} 3\n"
    found = known(text)

    assert (found.scheduled, found.waiting, found.slots) == (6, 3, None)
    assert sample(text, model="other") is None
    assert shows_engine(ExpositionReader().read(text.encode()).layout, "llm")


def test_an_empty_list_of_iterations_says_nothing() -> None:
    assert samples_of_iterations(b"[]", at=0.0) == ()


def test_a_long_list_of_iterations_is_sampled_evenly() -> None:
    body = json.dumps([{**ITERATION, "iter": number} for number in range(10_000)]).encode()
    numbers = [found.iterations for found in samples_of_iterations(body, at=0.0)]

    assert len(numbers) <= 500
    assert numbers[:3] == [0, 20, 40]


@pytest.mark.parametrize("body", [b"{}", b"[1]", b"<html>", b"[{", b'[{"kvCacheStats": 3}]'])
def test_what_is_no_list_of_iterations_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedBody):
        samples_of_iterations(body, at=0.0)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*ITERATION, "x"]), inner, max_size=5),
    max_leaves=20,
)


@given(_JSON)
def test_any_json_is_read_or_refused_and_never_leaves_a_number_that_is_none(value: object) -> None:
    try:
        found = samples_of_iterations(json.dumps(value).encode(), at=0.0)
    except MalformedBody:
        return
    for one in found:
        numbers = [getattr(one, name) for name in EngineSample.__slots__ if name not in ("at", "static_batching")]
        assert all(number is None or 0 <= number < float("inf") for number in numbers)


@given(st.dictionaries(st.sampled_from(["active", "waiting", "scheduled", "max", "context"]), st.floats(), min_size=1))
def test_any_values_of_gauges_become_counts_or_nothing(values: dict[str, float]) -> None:
    text = requests(**values).replace(" nan", " Nan").replace(" inf", " +Inf").replace(" -inf", " -Inf")
    found = known(text)

    for number in (found.active, found.waiting, found.scheduled, found.slots, found.context):
        assert number is None or 0 <= number < float("inf")
