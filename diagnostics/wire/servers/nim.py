"""NVIDIA NIM 1.x for LLMs: vLLM's families without a prefix, and its slots. NIM 2 shows as vLLM.

Sources: NIM for LLMs, "Observability" (`/v1/metrics`).
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.wire.servers.kind import ServerKind, token_series

KIND = ServerKind(
    name="NVIDIA NIM",
    page=":8000/v1/metrics",
    marks=frozenset(names.NIM_FAMILIES),
    never=frozenset({names.VLLM_RUNNING}),
    stored=(
        names.NIM_SLOTS,
        "num_requests_(running|waiting)",
        f"{names.SERVE_LATENCY}_(count|sum|bucket)",
        "request_failure_total",
    ),
    gauges={"num_requests_running": "scheduled", "num_requests_waiting": "waiting", names.NIM_SLOTS: "slots"},
    requests={f"{names.SERVE_LATENCY}_count": "success", f"{names.SERVE_LATENCY}_sum": "request_seconds"},
    tokens_seen=token_series(""),
    errors={"request_failure_total": ""},
    labels=frozenset({"finished_reason"}),
    unread=("the blocks of NIM's KV cache", "how long requests wait in its queue"),
)
