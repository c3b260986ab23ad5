"""`trtllm-serve`, TensorRT-LLM's own server. Its first releases had no prefix; Dynamo adds one.

Sources: TensorRT-LLM, `metrics/collector.py`, `serve/openai_server.py`, `docs/source/commands/trtllm-serve`.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.wire.servers.kind import TOKEN_OF_REQUEST, ServerKind, ServerOption, token_series

# Its first releases had no prefix, Dynamo adds one with a colon.
_PREFIXES = ("trtllm_", "trtllm:", "")
_GAUGES = {
    "num_requests_running": "active",
    "num_requests_waiting": "queued",
    "max_num_active_requests": "most_active",
    "max_batch_size_runtime": "slots",
    "max_num_tokens_runtime": "token_budget",
    "num_scheduled_requests": "scheduled",
    "num_context_requests": "context",
    "num_generation_requests": "generation",
    "num_paused_requests": "paused",
    "total_context_tokens": "context_tokens",
    "iteration_latency_seconds": "iteration_seconds",
    "kv_cache_max_blocks": "kv_blocks",
    "kv_cache_used_blocks": "kv_used",
    "kv_cache_free_blocks": "kv_free",
    "kv_cache_tokens_per_block": "tokens_per_block",
    "kv_cache_reused_blocks_total": "prefix_hits",
    "kv_cache_missed_blocks_total": "prefix_misses",
    "spec_decode_acceptance_length": "tokens_at_once",
    "spec_decode_draft_overhead": "draft_share",
}
# The histogram counts what it observed, which may be fewer requests than it finished.
_REQUESTS = {
    f"{names.SERVE_LATENCY}_count": "success",
    f"{names.SERVE_LATENCY}_sum": "request_seconds",
    "request_queue_time_seconds_sum": "queue_seconds",
    "request_inference_time_seconds_sum": "infer_seconds",
}
_PREFIXED = {prefix + name: meaning for name, meaning in _GAUGES.items() for prefix in _PREFIXES}
# Other servers without a prefix call these two the same.
_SHARED = {"num_requests_running", "num_requests_waiting"}
KIND = ServerKind(
    name="trtllm-serve",
    page=":8000/prometheus/metrics",
    prefixes=_PREFIXES[:2],
    marks=frozenset({*_PREFIXED, *(f"{prefix}{names.SERVE_LATENCY}_count" for prefix in _PREFIXES)} - _SHARED),
    never=frozenset(names.NIM_FAMILIES),
    stored=("trtllm[_:].+",),
    gauges=_PREFIXED,
    limits={f"{prefix}kv_cache_config_info": {"page_size": "tokens_per_block"} for prefix in _PREFIXES},
    requests={prefix + name: counter for name, counter in _REQUESTS.items() for prefix in _PREFIXES},
    tokens_seen={name: what for prefix in _PREFIXES for name, what in token_series(prefix, TOKEN_OF_REQUEST).items()},
    errors={f"{prefix}request_error_total": "http_code" for prefix in _PREFIXES},
    labels=frozenset({"finished_reason", "http_code", "engine_type", "cache_level", "cache_tier", "token_position"}),
    counts="set return_perf_metrics: true in its YAML options",
    scheduler="guaranteed_no_evict",
    chunks=False,
    slots=ServerOption(flag="--max_batch_size", key="max_batch_size"),
    tokens=ServerOption(flag="--max_num_tokens", key="max_num_tokens"),
    memory=ServerOption(flag="--kv_cache_free_gpu_memory_fraction", key="kv_cache_config.free_gpu_memory_fraction"),
)
