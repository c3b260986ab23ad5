"""NVIDIA Triton, with the gauges of its TensorRT-LLM backend (`nv_trt_llm_*`, 23.11 and later).

Sources: TensorRT-LLM, `custom_metrics_reporter.cc`.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.wire.servers.kind import ServerKind

KIND = ServerKind(
    name="Triton",
    prefixes=("nv_",),
    stored=("nv_.+",),
    has_api=True,
    seen="24.10, running",
    typed_gauges={
        names.ENGINE_REQUESTS: (
            names.ENGINE_REQUEST_TYPE,
            {"active": "active", "waiting": "waiting", "scheduled": "scheduled", "max": "slots", "context": "context"},
        ),
        names.ENGINE_KV: (
            names.ENGINE_KV_TYPE,
            {"max": "kv_blocks", "used": "kv_used", "free": "kv_free", "tokens_per": "tokens_per_block"},
        ),
        names.ENGINE_INFLIGHT: (
            names.ENGINE_INFLIGHT_TYPE,
            {
                "total_context_tokens": "context_tokens",
                "generation_requests": "generation",
                "paused_requests": "paused",
                "terminated_requests": "paused",  # its name until TensorRT-LLM 0.12
                "micro_batch_id": "micro_batch",
            },
        ),
        names.ENGINE_V1: (names.ENGINE_V1_TYPE, {"total_context_tokens": "context_tokens"}),
        names.ENGINE_GENERAL: (names.ENGINE_GENERAL_TYPE, {"iteration_counter": "iterations"}),
    },
)
