"""Requests wait inside the engine for KV cache blocks, while slots are free.

## Looks for
Requests wait inside an engine with free slots, while fewer KV blocks are free than one more request needs. Or half of
the blocks are in use, and the rest is reserved for running requests. A few requests may also be paused, if that costs
little. Where an engine counts preemptions (vLLM, SGLang), those show the shortage without the number of slots.

## Means
The paged KV cache is too small for the served sequences, so the engine runs few at a time. Under `guaranteed_no_evict`,
a request reserves blocks for its prompt and all tokens it *may* generate. So a large `max_tokens` uses cache even if
answers are short.

## Rules out
- All slots taken at most reads (`engine-batch-limit`).
- A token budget that lets only some prompts in (`engine-token-budget`).
- Requests paused for much of their time (`kv-cache-thrashing`).
- A full cache with nothing waiting: it keeps blocks for reuse, which is healthy.
- "Blocks are free, so this is not the cause": 9 of 40 free blocks are too few for a request that needs ten.

## Do
1. Give the cache more tokens: raise `max_tokens_in_paged_kv_cache`. Or remove it and raise
   `kv_cache_free_gpu_mem_fraction`: the smaller of the two applies. This is a full reload: unload the model first.
   Otherwise the new copy gets its fraction of what the old one leaves.
2. Let clients request realistic `max_tokens`. A quantized KV cache (FP8) holds twice as many.
3. `max_utilization` packs more requests and pauses some under pressure: use it only if latency may vary.

## Sources
tensorrtllm_backend, "Model configuration". server#7548 (5 of 99 requests scheduled, 31 of 40 blocks used).
TensorRT-LLM#1246 (a larger max_new_tokens slowed everything 7 to 8 times), TensorRT-LLM#16827. Little's law.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet
from diagnostics.checks.engine_gates import (
    HELD_LIMITS,
    KV_FULL,
    KV_RESERVED,
    PREEMPTED,
    SLOTS_LEFT,
    cache_is_short,
    cache_may_be_reserved,
    held_earlier,
    larger_cache,
    running_are_put_back,
    slots_are_taken,
    wait_claim,
)
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.engine import (
    ENGINE_BLOCK_TOKENS,
    ENGINE_KV_BLOCKED,
    ENGINE_KV_BLOCKS,
    ENGINE_KV_NEED,
    ENGINE_KV_USED,
    ENGINE_MAX_UTILIZATION,
    ENGINE_MICRO_BATCHES,
    ENGINE_PAUSED_SHARE,
    ENGINE_PEAK_FILL,
    ENGINE_PEAK_HELD,
    ENGINE_PEAK_SCHEDULED,
    ENGINE_PREEMPTED,
    ENGINE_SLOT_FILL,
    ENGINE_SLOTS,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.engine_iterations import ENGINE_CONTEXT_SHARE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

PREFILLING = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="an engine that admits prompts in most iterations is not held back by its cache",
)
SEVERAL = Limit(
    value=2, unit=Unit.COUNT, because="an engine that never ran two requests at once is not shown to batch at all"
)
CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={
        **HELD_LIMITS,
        "engine_slots_left": SLOTS_LEFT,
        "engine_kv_used_share": KV_RESERVED,
        "engine_kv_full_share": KV_FULL,
        "engine_context_share": PREFILLING,
        "engine_peak_scheduled": SEVERAL,
        "engine_preemptions_per_request": PREEMPTED,
    },
    symptom="engine-waits-with-free-slots",
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE, Phase.ENGINE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := held_earlier(ledger, subject, 2):
        return quiet
    if running_are_put_back(ledger, subject) and cache_is_short(ledger.as_alternative(), subject):
        return _finding(ledger, subject, "has no room for another request", "and running ones are put back")
    if ledger.as_rival().at_least(ENGINE_SLOT_FILL, subject, SLOTS_LEFT):
        return Quiet(because="nearly all slots are taken: a larger cache would hardly help")
    # Slots that are all taken now and then hold nobody back while the cache does at most reads.
    if cache_is_short(ledger.as_alternative(), subject):
        return _finding(ledger, subject, "has no room for another request")
    if slots_are_taken(ledger.as_rival(), subject):
        return Quiet(because="all slots are taken")
    if not _only_the_cache_is_left(ledger, subject):
        return Quiet(because="the KV cache has room while requests wait")
    if not ledger.evidence.read(ENGINE_MAX_UTILIZATION, subject).value:
        return _finding(ledger, subject, "is reserved for what the running requests may still generate")
    if not ledger.at_least(ENGINE_KV_USED, subject, KV_FULL):
        return Quiet(because="the KV cache has room while requests wait, and max_utilization reserves none")
    return _finding(ledger, subject, "is nearly full")


def _only_the_cache_is_left(ledger: Ledger, subject: Subject) -> bool:
    """Return whether nothing but reserved blocks can hold requests back: slots and iterations have room for prompts."""
    if not cache_may_be_reserved(ledger, subject):
        return False
    if not ledger.at_least(ENGINE_PEAK_SCHEDULED, subject, SEVERAL):
        return False
    return not ledger.ruled_out(ENGINE_CONTEXT_SHARE, subject, PREFILLING, above=True)


def _finding(ledger: Ledger, subject: Subject, state: str, beside: str = "while slots are free") -> Fires:
    wait, need = ledger.need(ENGINE_WAIT_SECONDS, subject), ledger.need(ENGINE_KV_NEED, subject)
    return Fires(
        summary=f"the KV cache of {subject.model}'s engine, "
        f"{Unit.COUNT.show(ledger.need(ENGINE_KV_BLOCKS, subject))} blocks at "
        f"{Unit.COUNT.show(need)} per request, {state}: {Unit.COUNT.show(ledger.need(ENGINE_WAITING, subject))} "
        f"requests wait inside, {Unit.SECONDS.show(wait)} each, {beside}",
        claims=(wait_claim(ledger, subject),),
        saved_seconds=wait,
        suggestion=larger_cache(ledger, subject),
    )


_STARVED = {
    REQUESTS: 900,
    REQUEST_SECONDS: 0.98,
    ENGINE_WAITING: 19,
    ENGINE_WAITING_SHARE: 0.95,
    ENGINE_WAIT_SECONDS: 0.78,
    ENGINE_MICRO_BATCHES: 1,
    ENGINE_SLOTS: 32,
    ENGINE_SLOT_FILL: 0.12,
    ENGINE_PEAK_FILL: 0.13,
    ENGINE_PEAK_SCHEDULED: 4,
    ENGINE_PEAK_HELD: 38,
    ENGINE_KV_BLOCKED: 0.9,
    ENGINE_KV_USED: 0.95,
    ENGINE_KV_NEED: 3,
    ENGINE_KV_BLOCKS: 12,
    ENGINE_BLOCK_TOKENS: 64,
    ENGINE_CONTEXT_SHARE: 0.1,
    ENGINE_PAUSED_SHARE: 0,
}
_NO_SLOTS = {
    signal: value
    for signal, value in _STARVED.items()
    if signal not in (ENGINE_SLOTS, ENGINE_SLOT_FILL, ENGINE_PEAK_FILL, ENGINE_MICRO_BATCHES, ENGINE_PAUSED_SHARE)
}
CASES = (
    CheckCase.fires("when no blocks are left and slots are free", _STARVED),
    CheckCase.fires(
        "when blocks are free but promised to running requests",
        {**_STARVED, ENGINE_KV_BLOCKED: 0, ENGINE_KV_USED: 0.775, ENGINE_KV_NEED: 6.2, ENGINE_KV_BLOCKS: 40},
    ),
    CheckCase.fires("when running requests are put back, whatever the slots", {**_NO_SLOTS, ENGINE_PREEMPTED: 0.0535}),
    CheckCase.unknown("when the slots are, and requests are seldom put back", {**_NO_SLOTS, ENGINE_PREEMPTED: 0.0465}),
    CheckCase.quiet(
        "about a full cache when nothing waits",
        {**_STARVED, ENGINE_WAITING: 0, ENGINE_WAITING_SHARE: 0, ENGINE_WAIT_SECONDS: 0, ENGINE_KV_USED: 0.99},
    ),
    CheckCase.quiet(
        "when the cache is empty while requests wait", {**_STARVED, ENGINE_KV_BLOCKED: 0, ENGINE_KV_USED: 0.05}
    ),
)
