"""What an LLM engine says of its last iteration, whatever it is called where it is said.

Four spellings: the gauges of the TensorRT-LLM backend (`nv_trt_llm_*`, Triton 23.11 and later), the Prometheus page of
`trtllm-serve` (with and without the prefix `trtllm_`), its JSON list of iterations (`GET /metrics`), and what the vLLM
backend hands through to Triton's page (`vllm:*`, in its later releases with the scheduler's gauges).
Sources: TensorRT-LLM, `custom_metrics_reporter.cc`, `executor/types.h`, `metrics/collector.py`, `openai_server.py`;
vllm_backend, `src/utils/metrics.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import SeriesLayout, Snapshot
from diagnostics.wire.json_body import JsonFields, decode, excerpt, number


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """One read of an engine's state: its last iteration at that moment. None is what was not said.

    Attributes:
        at: Unix seconds.
        active: requests that the engine holds, scheduled or not.
        waiting: requests that it holds and has not scheduled.
        scheduled: requests in the last iteration's batch.
        slots: requests that it can hold or schedule at once.
        context, generation: of the scheduled ones, those in prefill and those in decoding.
        context_tokens: tokens of prefill in the last iteration.
        paused: requests put back for lack of KV blocks.
        kv_blocks, kv_used, kv_free: blocks of the KV cache.
        tokens_per_block: tokens that a block holds.
        token_budget: most tokens of an iteration.
        micro_batch: number of the micro batch; more than one means pipeline parallelism.
        iterations: iterations so far.
        iteration_seconds: what the last iteration took.
        static_batching: whether batches are formed once and run to their end (`V1`).

    """

    at: float
    active: float | None = None
    waiting: float | None = None
    scheduled: float | None = None
    slots: float | None = None
    context: float | None = None
    generation: float | None = None
    context_tokens: float | None = None
    paused: float | None = None
    kv_blocks: float | None = None
    kv_used: float | None = None
    kv_free: float | None = None
    tokens_per_block: float | None = None
    token_budget: float | None = None
    micro_batch: float | None = None
    iterations: float | None = None
    iteration_seconds: float | None = None
    static_batching: bool = False


# family -> (label that says what a series is, its value -> what it means here). Values not listed are read over.
_TRITON: Mapping[str, tuple[str, Mapping[str, str]]] = {
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
}


# The page of `trtllm-serve`, without prefix; its own gauges have one kind of label, the model's name.
_SERVE: Mapping[str, str] = {
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
}
_SERVE_NAMES = tuple((prefix + name, meaning) for name, meaning in _SERVE.items() for prefix in names.SERVE_PREFIXES)
_VLLM: Mapping[str, str] = {names.VLLM_RUNNING: "scheduled", names.VLLM_WAITING: "waiting"}
# JSON of `trtllm-serve`: group ("" is the top) -> key -> what it means here.
_ITERATION: Mapping[str, Mapping[str, str]] = {
    "": {
        "iter": "iterations",
        "numActiveRequests": "active",
        "numQueuedRequests": "queued",
        "maxNumActiveRequests": "most_active",
        "maxBatchSizeRuntime": "slots",
        "maxNumTokensRuntime": "token_budget",
    },
    "kvCacheStats": {
        "maxNumBlocks": "kv_blocks",
        "usedNumBlocks": "kv_used",
        "freeNumBlocks": "kv_free",
        "tokensPerBlock": "tokens_per_block",
    },
    "inflightBatchingStats": {
        "numScheduledRequests": "scheduled",
        "numContextRequests": "context",
        "numGenRequests": "generation",
        "numPausedRequests": "paused",
        "numCtxTokens": "context_tokens",
        "microBatchId": "micro_batch",
    },
    "staticBatchingStats": {
        "numScheduledRequests": "scheduled",
        "numContextRequests": "context",
        "numCtxTokens": "context_tokens",
    },
}
# Families whose labels name the model that an engine serves.
_SHOWING = frozenset({names.ENGINE_REQUESTS, *names.VLLM_FAMILIES})
_SERVED = frozenset(f"{prefix}{names.SERVE_LATENCY}_count" for prefix in names.SERVE_PREFIXES)
_FAMILIES = frozenset({*_TRITON, *_VLLM, *(name for name, _ in _SERVE_NAMES)})
_MILLISECOND = 1e-3
# Zero of these is what a backend writes that does not fill them in (TensorRT-LLM's PyTorch backend).
_LIMITS = ("slots", "most_active", "token_budget", "kv_blocks", "tokens_per_block")
# Of one body. A sample of them says as much, and an engine that nobody asked for an hour has a hundred thousand.
_MOST_ITERATIONS = 500


def _held(layout: SeriesLayout, families: Set[str]) -> Set[str]:
    """Return which of these families a page has; most pages are no engine's, and every model asks."""
    return layout.by_name.keys() & families


def shows_engine(layout: SeriesLayout, model: str) -> bool:
    """Return whether a page holds the gauges of an engine that serves this model."""
    named = any(
        layout.series[slot].labels.get(names.MODEL) == model
        for name in _held(layout, _SHOWING)
        for slot in layout.by_name[name]
    )
    return named or is_served(layout, model)


def is_serve_page(layout: SeriesLayout) -> bool:
    """Return whether the page is one of `trtllm-serve`, with or without the gauges of its iterations."""
    return any(
        names.SERVE_MODEL in layout.series[slot].labels
        for name in _held(layout, _SERVED)
        for slot in layout.by_name[name]
    )


def is_served(layout: SeriesLayout, model: str) -> bool:
    """Return whether the page is `trtllm-serve`'s and speaks of this model."""
    return any(
        layout.series[slot].labels.get(names.SERVE_MODEL) == model
        for name in _held(layout, _SERVED)
        for slot in layout.by_name[name]
    )


def engine_slots(layout: SeriesLayout, model: str, version: str | None) -> Mapping[str, int]:
    """Return which slot of a page holds which value of a model's engine; `version` None takes any version."""
    found: dict[str, int] = {}
    if not _held(layout, _FAMILIES):
        return found
    for family, (label, meanings) in _TRITON.items():
        for slot in layout.by_name.get(family, ()):
            labels = layout.series[slot].labels
            meaning = meanings.get(labels.get(label, ""))
            if meaning and _is_of(labels, model, version):
                found[meaning] = slot
    return found or _vllm_slots(layout, model, version) or _serve_slots(layout, model)


def _is_of(labels: Mapping[str, str], model: str, version: str | None) -> bool:
    return labels.get(names.MODEL) == model and version in (None, labels.get(names.VERSION))


def _vllm_slots(layout: SeriesLayout, model: str, version: str | None) -> Mapping[str, int]:
    return {
        meaning: slot
        for name, meaning in _VLLM.items()
        for slot in layout.by_name.get(name, ())
        if _is_of(layout.series[slot].labels, model, version)
    }


def _serve_slots(layout: SeriesLayout, model: str) -> Mapping[str, int]:
    return {
        meaning: slot
        for name, meaning in _SERVE_NAMES
        for slot in layout.by_name.get(name, ())
        if layout.series[slot].labels.get(names.SERVE_MODEL) == model
    }


def sample_of_page(snapshot: Snapshot, slots: Mapping[str, int], at: float) -> EngineSample | None:
    """Return what one page says of an engine whose slots are known; None when it says nothing."""
    values = {meaning: snapshot.values[slot] for meaning, slot in slots.items()}
    static = names.ENGINE_V1 in snapshot.layout.by_name and names.ENGINE_INFLIGHT not in snapshot.layout.by_name
    return _sample(at, values, static=static) if values else None


def samples_of_iterations(body: bytes, at: float) -> tuple[EngineSample, ...]:
    """Return the iterations of a JSON list of `trtllm-serve`, oldest first; each is said once, to whom reads first.

    All of them carry the time of the read: the engine's own timestamps are local time without a zone.

    Raises:
        MalformedBody: it is no JSON list of objects.

    """
    entries = decode(body, "the list of iterations")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise MalformedBody(f"the iterations should be a JSON list of objects but are {excerpt(body)}")
    every = -(-len(entries) // _MOST_ITERATIONS) or 1
    return tuple(_iteration(JsonFields(entry, "an iteration"), at) for entry in entries[::every])


def _iteration(entry: JsonFields, at: float) -> EngineSample:
    values: dict[str, float] = {}
    for group, keys in _ITERATION.items():
        part = entry.child(group) if group else entry
        values |= {meaning: value for key, meaning in keys.items() if (value := number(part.raw(key))) is not None}
    latency = number(entry.raw("iterLatencyMS"))
    if latency is not None:
        values["iteration_seconds"] = latency * _MILLISECOND
    static = entry.has("staticBatchingStats") and not entry.has("inflightBatchingStats")
    return _sample(at, values, static=static)


def _sample(at: float, values: Mapping[str, float], *, static: bool) -> EngineSample:
    # Values sampled apart can come out negative (waiting = active − scheduled); a count never is.
    known = {key: max(value, 0.0) for key, value in values.items() if math.isfinite(value)}
    for limit in _LIMITS:
        if not known.get(limit, 1.0):
            del known[limit]
    most_active, queued = known.pop("most_active", None), known.pop("queued", 0.0)
    if most_active:
        known.setdefault("slots", most_active)
    _complete_waiting(known, queued)
    _complete_blocks(known)
    return EngineSample(at=at, static_batching=static, **known)


def _complete_waiting(known: dict[str, float], queued: float) -> None:
    """Releases before TensorRT-LLM 0.17 do not say what waits: what the engine holds and has not scheduled."""
    if "waiting" not in known and "active" in known and "scheduled" in known:
        known["waiting"] = max(known["active"] - known["scheduled"], 0.0)
    if "waiting" in known:
        known["waiting"] += queued
    elif queued:
        known["waiting"] = queued


def _complete_blocks(known: dict[str, float]) -> None:
    if "kv_blocks" not in known:
        return
    for one, other in (("kv_free", "kv_used"), ("kv_used", "kv_free")):
        if other in known:
            known.setdefault(one, max(known["kv_blocks"] - known[other], 0.0))
