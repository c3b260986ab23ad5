"""Every metric that releases of Triton and its backends export, by type.

Source: Triton core, `metrics.cc`, `metric_model_reporter.cc`; local_cache; TensorRT-LLM, `custom_metrics_reporter.cc`;
vllm_backend, `metrics.py`. What is not spelled in `diagnostics.names` is read by no check.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from diagnostics import names
from diagnostics.wire.servers.catalogue import server_kinds

PREFIX = "nv_"
"""How every metric of Triton and of the TensorRT-LLM backend begins."""
CACHE_UTILIZATION = "nv_cache_util"
RETIRED_DURATION = "nv_inference_compute_duration_us"
RETIRED_LOAD_RATIO = "nv_inference_load_ratio"
ENGINE_DISAGGREGATED = "nv_trt_llm_disaggregated_serving_metrics"
COMPUTE_DURATIONS = frozenset({names.INPUT_DURATION, names.INFER_DURATION, names.OUTPUT_DURATION})
DURATIONS = COMPUTE_DURATIONS | {names.REQUEST_DURATION, names.QUEUE_DURATION}
COUNTERS = DURATIONS | {
    names.REQUEST_SUCCESS,
    names.REQUEST_FAILURE,
    names.INFERENCE_COUNT,
    names.EXECUTION_COUNT,
    names.CACHE_HITS,
    names.CACHE_MISSES,
    "nv_cache_hit_duration_per_model",
    names.CACHE_MISS_DURATION,
    names.GPU_ENERGY,
    ENGINE_DISAGGREGATED,
}
ENGINE_LABELS: Mapping[str, str] = {
    names.ENGINE_REQUESTS: names.ENGINE_REQUEST_TYPE,
    names.ENGINE_KV: names.ENGINE_KV_TYPE,
    names.ENGINE_INFLIGHT: names.ENGINE_INFLIGHT_TYPE,
    names.ENGINE_V1: names.ENGINE_V1_TYPE,
    names.ENGINE_MEMORY: names.ENGINE_MEMORY_TYPE,
    names.ENGINE_GENERAL: names.ENGINE_GENERAL_TYPE,
}
"""Families whose label says what a series is, and the label."""
OF_ONE_UNIT = frozenset({names.ENGINE_REQUESTS, names.ENGINE_MEMORY})
"""Those among them whose values all have one unit: requests, and bytes."""
GROWING_GAUGES: Mapping[str, frozenset[str]] = {
    names.ENGINE_KV: frozenset({"reused"}),
    names.ENGINE_GENERAL: frozenset({"iteration_counter", "timestamp"}),
}
"""Values of these families that only grow although they are gauges, so that a rate of them means something."""
GAUGES = frozenset(ENGINE_LABELS) | {
    names.PENDING_REQUESTS,
    names.LOAD_DURATION,
    names.PINNED_MEMORY_USED,
    names.PINNED_MEMORY_TOTAL,
    names.GPU_UTILIZATION,
    names.GPU_POWER,
    names.GPU_POWER_LIMIT,
    names.GPU_MEMORY_USED,
    names.GPU_MEMORY_TOTAL,
    names.CPU_UTILIZATION,
    names.CPU_MEMORY_USED,
    names.CPU_MEMORY_TOTAL,
    CACHE_UTILIZATION,
    "nv_cache_num_entries",
    "nv_cache_num_lookups",
    "nv_cache_num_hits",
    "nv_cache_num_misses",
    "nv_cache_num_evictions",
    "nv_cache_lookup_duration",
    "nv_cache_insertion_duration",
}
SUMMARIES = frozenset(
    {
        names.REQUEST_SUMMARY,
        names.QUEUE_SUMMARY,
        "nv_inference_compute_input_summary_us",
        names.INFER_SUMMARY,
        "nv_inference_compute_output_summary_us",
        "nv_cache_hit_summary_per_model",
        "nv_cache_miss_summary_per_model",
    }
)
HISTOGRAMS = frozenset({names.FIRST_RESPONSE, "nv_llm_input_token_len", "nv_llm_output_token_len"})
RETIRED: Mapping[str, str] = {
    RETIRED_DURATION: "20.03",
    RETIRED_LOAD_RATIO: "20.03",
    "nv_cache_hit_lookup_duration_per_model": "23.02",
    "nv_cache_miss_lookup_duration_per_model": "23.02",
    "nv_cache_miss_insertion_duration_per_model": "23.02",
}
"""Metrics of old releases, and the last release known to export them."""
OF_HOST = frozenset(
    {
        names.CPU_UTILIZATION,
        names.CPU_MEMORY_USED,
        names.CPU_MEMORY_TOTAL,
        names.PINNED_MEMORY_USED,
        names.PINNED_MEMORY_TOTAL,
    }
)
"""Families of the host, which have no label of Triton's."""
SHARES = frozenset({names.GPU_UTILIZATION, names.CPU_UTILIZATION, CACHE_UTILIZATION, "up"})
"""Gauges from 0 to 1; `up` is Prometheus' own."""
REASONS = frozenset({"REJECTED", "CANCELED", "BACKEND", "OTHER"})
"""Values of a failure's `reason`, from 24.07 on."""
ENGINE_VALUES: Mapping[str, frozenset[str]] = {
    names.ENGINE_REQUESTS: frozenset({"active", "max", "scheduled", "context", "waiting"}),
    names.ENGINE_KV: frozenset({"max", "free", "used", "tokens_per", "reused", "fraction"}),
    names.ENGINE_INFLIGHT: frozenset(
        {"total_context_tokens", "generation_requests", "micro_batch_id", "paused_requests"}
    ),
    names.ENGINE_V1: frozenset({"total_context_tokens", "total_generation_tokens", "empty_generation_slots"}),
    names.ENGINE_MEMORY: frozenset({"cpu", "gpu", "pinned"}),
    names.ENGINE_GENERAL: frozenset({"timestamp", "iteration_counter"}),
}
"""Values of the label that says what a series of an engine's family is."""
_PARTS = ("_sum", "_count")


def exported(name: str) -> bool:
    """Return whether a release exports a series of this name, today's or one of the last years."""
    return name in COUNTERS | GAUGES | SUMMARIES or _counts(name)


def of_gpu(name: str) -> bool:
    """Return whether a family is a GPU's, with the label `gpu_uuid` alone."""
    return name.startswith("nv_gpu_") or name == names.GPU_ENERGY


def of_model(name: str) -> bool:
    """Return whether a family is a model's, with the labels `model` and `version`."""
    return name.startswith("nv_inference_") and exported(name)


def is_counter(name: str) -> bool:
    """Return whether a series of this name only grows until its server restarts."""
    others = name.endswith(("_total", "_bucket", *_PARTS)) and _of_engine(name)
    return name in COUNTERS or _counts(name) or others


def _of_engine(name: str) -> bool:
    """Return whether a series is of a server of an engine other than Triton."""
    patterns = (pattern for kind in server_kinds() if not kind.has_api for pattern in kind.stored)
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _counts(name: str) -> bool:
    """Return whether a series is a part of a histogram or a summary that counts."""
    of_both = any(name.removesuffix(part) in SUMMARIES | HISTOGRAMS for part in _PARTS if name.endswith(part))
    return of_both or (name.endswith("_bucket") and name.removesuffix("_bucket") in HISTOGRAMS)
