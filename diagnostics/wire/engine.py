"""What an LLM engine says of its last iteration, whatever it is called where it is said.

Each kind of server says where its page has the gauges (`servers/`). `trtllm-serve` also lists its iterations as JSON
(`GET /metrics`).
Sources: TensorRT-LLM, `executor/types.h`, `openai_server.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from diagnostics import names
from diagnostics.errors import MalformedBody
from diagnostics.wire.exposition import SeriesLayout, Snapshot
from diagnostics.wire.json_body import JsonFields, decimal, decode, excerpt, number
from diagnostics.wire.servers.catalogue import kinds_of, serving_kind
from diagnostics.wire.servers.kind import ServerKind


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSample:
    """One read of an engine's state: its last iteration at that moment. None is what was not said.

    A page may also give what these follow from: `queued` (requests waiting that it does not hold yet), `most_active`
    (requests that it can hold), `kv_share` (of `kv_blocks`, 0 to 1), `kv_tokens` or `kv_pages` and `page_tokens` (size
    of the KV cache), `prefix_misses`.

    Attributes:
        at: Unix seconds.
        active: requests that the engine holds, scheduled or not.
        waiting: requests that it holds and has not scheduled.
        scheduled: requests in the last iteration's batch.
        slots: requests that it can hold or schedule at once.
        context, generation: of the scheduled ones, those in prefill and those in decoding.
        context_tokens: tokens of prefill in the last iteration.
        paused: requests put back for lack of KV blocks.
        preempted: running requests put back so far, each time counted.
        kv_blocks, kv_used, kv_free: blocks of the KV cache.
        tokens_per_block: tokens that a block holds.
        token_budget: most tokens of an iteration.
        micro_batch: number of the micro batch; more than one means pipeline parallelism.
        iterations: iterations so far.
        iteration_seconds: what the last iteration took.
        tokens_at_once: tokens that a request with a draft got in it, on average: the accepted ones and one more.
        draft_share: share of it in which tokens were drafted.
        prefix_queries, prefix_hits: what was looked up in its prefix cache so far, and what of it was there: tokens, or
            blocks.
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
    preempted: float | None = None
    kv_blocks: float | None = None
    kv_used: float | None = None
    kv_free: float | None = None
    tokens_per_block: float | None = None
    token_budget: float | None = None
    micro_batch: float | None = None
    iterations: float | None = None
    iteration_seconds: float | None = None
    tokens_at_once: float | None = None
    draft_share: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    static_batching: bool = False


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
    "specDecodingStats": {"acceptanceLength": "tokens_at_once", "draftOverhead": "draft_share"},
    "staticBatchingStats": {
        "numScheduledRequests": "scheduled",
        "numContextRequests": "context",
        "numCtxTokens": "context_tokens",
    },
}
# Families whose labels name the model that an engine serves under Triton.
_SHOWING = frozenset({names.ENGINE_REQUESTS, *names.VLLM_FAMILIES})
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
    return named or serving_kind(layout, model) is not None


@dataclass(frozen=True, slots=True)
class EnginePlaces:
    """Where a page says what of one model's engine.

    Attributes:
        slots: meaning -> slot of the page.
        constants: meaning -> number that stands in a label or is the same for every such server.

    """

    slots: Mapping[str, int]
    constants: Mapping[str, float]


_NOWHERE = EnginePlaces({}, {})


def engine_places(layout: SeriesLayout, model: str, version: str | None) -> EnginePlaces:
    """Return where a page describes a model's engine; `version` None takes any version."""
    found = (_places(kind, layout, model, version) for kind in kinds_of(layout))
    return next((places for places in found if places.slots), _NOWHERE)


def _places(kind: ServerKind, layout: SeriesLayout, model: str, version: str | None) -> EnginePlaces:
    found: dict[str, list[int]] = {}
    limits = kind.behind if kind.stands_before_one(layout) else {}
    for family, meaning in {**kind.gauges, **limits}.items():
        if meaning in found:
            continue  # under an older name
        for slot in layout.by_name.get(family, ()):
            if _is_of(layout.series[slot].labels, model, version):
                found.setdefault(meaning, []).append(slot)
    for family, (label, meanings) in kind.typed_gauges.items():
        for slot in layout.by_name.get(family, ()):
            labels = layout.series[slot].labels
            stated = meanings.get(labels.get(label, ""))
            if stated and _is_of(labels, model, version):
                found[stated] = [slot]
    # Several series are several engines behind one name, whose limits do not add up to one engine's.
    return EnginePlaces(
        {meaning: slots[0] for meaning, slots in found.items() if len(slots) == 1}, _constants(kind, layout)
    )


def _constants(kind: ServerKind, layout: SeriesLayout) -> Mapping[str, float]:
    found = dict(kind.constants)
    for family, meanings in kind.limits.items():
        slots = layout.by_name.get(family, ())
        if len(slots) == 1:
            stated = layout.series[slots[0]].labels
            found |= {
                meaning: float(value)
                for label, meaning in meanings.items()
                if (value := decimal(stated.get(label))) is not None
            }
    return found


def _is_of(labels: Mapping[str, str], model: str, version: str | None) -> bool:
    if labels.get(names.SERVE_MODEL) == model:
        return True
    return labels.get(names.MODEL) == model and version in (None, labels.get(names.VERSION, ""))


def limits_behind(snapshot: Snapshot, model: str) -> Mapping[str, float]:
    """Return the limits of each engine of a model that a server in front of them states: meaning -> number."""
    return {
        meaning: snapshot.values[slot]
        for kind in kinds_of(snapshot.layout)
        for family, meaning in kind.behind.items()
        for slot in snapshot.layout.by_name.get(family, ())
        if _is_of(snapshot.layout.series[slot].labels, model, None)
    }


def sample_of_page(snapshot: Snapshot, places: EnginePlaces, at: float) -> EngineSample | None:
    """Return what one page says of an engine; None when it says nothing."""
    values = {meaning: snapshot.values[slot] for meaning, slot in places.slots.items()}
    static = names.ENGINE_V1 in snapshot.layout.by_name and names.ENGINE_INFLIGHT not in snapshot.layout.by_name
    return _sample(at, {**places.constants, **values}, static=static) if values else None


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
    missed = known.pop("prefix_misses", None)
    if missed is not None:
        # A counter that was never raised is not exported.
        known["prefix_queries"] = missed + known.setdefault("prefix_hits", 0.0)
    _complete_capacity(known)
    share = known.pop("kv_share", None)
    if share is not None and "kv_blocks" in known:
        known.setdefault("kv_used", share * known["kv_blocks"])
    most_active, queued = known.pop("most_active", None), known.pop("queued", 0.0)
    if most_active:
        known.setdefault("slots", most_active)
    _complete_waiting(known, queued)
    _complete_blocks(known)
    return EngineSample(at=at, static_batching=static, **known)


def _complete_capacity(known: dict[str, float]) -> None:
    """Complete the size of the KV cache, which a server's configuration gives in tokens or pages: `*_config_info`."""
    tokens, pages, each = (known.pop(name, None) for name in ("kv_tokens", "kv_pages", "page_tokens"))
    if tokens is None and pages and each:
        tokens = pages * each
    if tokens:
        known.setdefault("kv_blocks", tokens / known.get("tokens_per_block", 1.0))


def _complete_waiting(known: dict[str, float], queued: float) -> None:
    """Complete what is held, scheduled or waiting: TensorRT-LLM before 0.17 leaves out the last, Dynamo the second."""
    if "scheduled" not in known and "active" in known and "waiting" in known:
        known["scheduled"] = max(known["active"] - known["waiting"], 0.0)
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
