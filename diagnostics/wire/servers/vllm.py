"""vLLM: alone, as an engine under Triton or Dynamo, or inside NIM 2.

Alone it names its model by `model_name`; as a backend of Triton by `model`, with few families.
Sources: vllm, `v1/metrics/loggers.py` and the design of its metrics; vllm_backend, `src/utils/metrics.py`.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.wire.servers.kind import ANSWER_TOKENS, PROMPT_TOKENS, ServerKind, ServerOption, token_series

KIND = ServerKind(
    name="vLLM",
    prefixes=("vllm:",),
    stored=("vllm:.+",),
    gauges={
        names.VLLM_RUNNING: "scheduled",
        names.VLLM_WAITING: "waiting",
        "vllm:kv_cache_usage_perc": "kv_share",
        "vllm:gpu_cache_usage_perc": "kv_share",  # its name in V0
        "vllm:num_preemptions_total": "preempted",
        "vllm:prefix_cache_queries_total": "prefix_queries",
        "vllm:prefix_cache_hits_total": "prefix_hits",
        names.NIM_SLOTS: "slots",  # NIM 2 adds it
    },
    limits={
        "vllm:cache_config_info": {
            "num_gpu_blocks": "kv_blocks",  # "None" until its engine tells it
            "block_size": "tokens_per_block",
            "kv_cache_size_tokens": "kv_tokens",
        }
    },
    requests={
        f"{names.VLLM_LATENCY}_count": "success",
        f"{names.VLLM_LATENCY}_sum": "request_seconds",
        "vllm:request_queue_time_seconds_sum": "queue_seconds",
        "vllm:request_inference_time_seconds_sum": "infer_seconds",
    },
    tokens_seen={
        **token_series("vllm:"),
        "vllm:request_prompt_tokens": PROMPT_TOKENS,
        "vllm:request_generation_tokens": ANSWER_TOKENS,
    },
    labels=frozenset({"finished_reason", "engine", "waiting_lora_adapters", "running_lora_adapters", "position"}),
    slots=ServerOption(flag="--max-num-seqs", key="max-num-seqs"),
    tokens=ServerOption(flag="--max-num-batched-tokens", key="max-num-batched-tokens"),
    memory=ServerOption(flag="--gpu-memory-utilization", key="gpu-memory-utilization"),
    seen="pages written from its sources, and those of Dynamo's mocker engine",
    unread=(
        "the most sequences at once (--max-num-seqs), unless NIM adds num_request_max",
        "its failed requests",
    ),
)
