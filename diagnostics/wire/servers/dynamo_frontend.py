"""The frontend of NVIDIA Dynamo: requests as clients see them, in front of workers with engines.

It counts a request as queued until its first token comes, and states the limits of one worker. Where it has several
workers, how many of them serve a model is not on its page, so that their slots are not added up.
Sources: dynamo, `lib/runtime/src/metrics/prometheus_names.rs`, `lib/llm/src/http/service/metrics.rs`; a frontend 1.6.1.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.wire.servers.kind import (
    ANSWER_TOKENS,
    FIRST_TOKEN,
    GENERATED,
    NEXT_TOKEN,
    PROMPT_TOKENS,
    PROMPTED,
    ServerKind,
    ServerOption,
)

_WORKER = "dynamo_frontend_worker_last_time_to_first_token_seconds"
KIND = ServerKind(
    name="NVIDIA Dynamo's frontend",
    restarts="the workers of NVIDIA Dynamo",
    model_label=names.MODEL,
    prefixes=("dynamo_frontend_",),
    stored=(
        "dynamo_frontend_(queued|inflight)_requests",
        "dynamo_frontend_request_duration_seconds_(count|sum|bucket)",
        "dynamo_frontend_(time_to_first_token|inter_token_latency)_seconds_(count|sum|bucket)",
        "dynamo_frontend_output_tokens_total",
        "dynamo_frontend_input_sequence_tokens_sum",
        "dynamo_frontend_model_(max_num_seqs|total_kv_blocks|kv_cache_block_size|max_num_batched_tokens)",
        _WORKER,
    ),
    gauges={"dynamo_frontend_inflight_requests": "active", "dynamo_frontend_queued_requests": "waiting"},
    behind={
        "dynamo_frontend_model_max_num_seqs": "slots",
        "dynamo_frontend_model_total_kv_blocks": "kv_blocks",
        "dynamo_frontend_model_kv_cache_block_size": "tokens_per_block",
        "dynamo_frontend_model_max_num_batched_tokens": "token_budget",
    },
    shows_behind=(_WORKER, "worker_id"),
    requests={
        "dynamo_frontend_request_duration_seconds_count": "success",
        "dynamo_frontend_request_duration_seconds_sum": "request_seconds",
    },
    tokens_seen={
        "dynamo_frontend_time_to_first_token_seconds": FIRST_TOKEN,
        "dynamo_frontend_inter_token_latency_seconds": NEXT_TOKEN,
        "dynamo_frontend_output_tokens_total": GENERATED,
        "dynamo_frontend_input_sequence_tokens_sum": PROMPTED,
        "dynamo_frontend_input_sequence_tokens": PROMPT_TOKENS,
        "dynamo_frontend_output_sequence_tokens": ANSWER_TOKENS,
    },
    errors={"dynamo_frontend_requests_total": "error_type"},
    failed=frozenset({"overload", "unavailable", "response_timeout", "internal"}),
    labels=frozenset({"worker_id", "worker_type", "dp_rank"}),
    slots=ServerOption(
        flag="--max-num-seqs", elsewhere="--max-batch-size in dynamo.trtllm, --max-running-requests in dynamo.sglang"
    ),
    tokens=ServerOption(
        flag="--max-num-batched-tokens",
        elsewhere="--max-num-tokens in dynamo.trtllm, --chunked-prefill-size in dynamo.sglang",
    ),
    memory=ServerOption(
        flag="--gpu-memory-utilization",
        elsewhere="--free-gpu-memory-fraction in dynamo.trtllm, --mem-fraction-static in dynamo.sglang",
    ),
    seen="Dynamo 1.6.1, running with its mocker engine",
    unread=("the KV cache of Dynamo's workers: name their metrics pages too (DYN_SYSTEM_PORT)",),
)
