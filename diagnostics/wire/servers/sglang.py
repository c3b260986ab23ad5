"""SGLang. It counts its KV cache in tokens.

Sources: sglang, `srt/metrics/collector.py`, `docs/references/production_metrics.md`.
"""

from __future__ import annotations

from diagnostics.wire.servers.kind import ANSWER_TOKENS, PROMPT_TOKENS, ServerKind, ServerOption, token_series

KIND = ServerKind(
    name="SGLang",
    page=":30000/metrics",
    prefixes=("sglang:",),
    stored=("sglang:.+",),
    gauges={
        "sglang:num_running_reqs": "scheduled",
        "sglang:num_queue_reqs": "waiting",
        "sglang:num_used_tokens": "kv_used",
        "sglang:token_usage": "kv_share",
        "sglang:max_total_num_tokens": "kv_blocks",
        "sglang:page_size": "page_tokens",  # since 0.5.11
        "sglang:num_pages": "kv_pages",
        "sglang:num_retracted_requests_total": "preempted",  # of the last batch alone: num_retracted_reqs
    },
    limits={"sglang:cache_config_info": {"page_size": "page_tokens", "num_pages": "kv_pages"}},  # before
    constants={"tokens_per_block": 1.0},
    requests={
        "sglang:e2e_request_latency_seconds_count": "success",
        "sglang:e2e_request_latency_seconds_sum": "request_seconds",
    },
    tokens_seen={
        **token_series("sglang:"),
        "sglang:prompt_tokens_histogram": PROMPT_TOKENS,
        "sglang:generation_tokens_histogram": ANSWER_TOKENS,
    },
    labels=frozenset({"tp_rank", "pp_rank", "dp_rank", "moe_ep_rank", "engine_type", "stage"}),
    scheduler="retraction",
    slots=ServerOption(flag="--max-running-requests"),
    tokens=ServerOption(flag="--chunked-prefill-size"),
    memory=ServerOption(flag="--mem-fraction-static"),
    unread=("the most requests that SGLang runs at once", "its failed requests"),
)
