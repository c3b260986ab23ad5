"""The engine runs one request, or one fixed batch, at a time while others wait inside.

## Looks for
Requests wait inside an engine that forms static batches (`gpt_model_type` V1, or the gauges of V1). Or the engine never
schedules more than one request, despite free slots and room in its KV cache.

## Means
In-flight batching is off or has no effect. A new request waits until the whole current batch ends, and a short answer
waits for the batch's longest.

## Rules out
- An engine with one slot: its batch size is the limit (`engine-batch-limit`).
- A KV cache that holds only one sequence (`kv-cache-exhausted`).
- Batch size 1 in Triton's own statistics: normal for an engine, because it batches inside.

## Do
1. Set `gpt_model_type` to `inflight_fused_batching`, as the patch shows if the setting exists. This is a full reload:
   unload the model first. The engine must be built with a paged KV cache and packed inputs
   (`--remove_input_padding enable`).
2. If it is set already, check the engine's build: without a KV cache, no in-flight batching happens.
3. Do not change Triton's `dynamic_batching` of this model: a window there only adds latency.

## Sources
tensorrtllm_backend, "Model configuration", batching strategy. tensorrtllm_backend#661 (ten requests one after another),
tensorrtllm_backend#645 and TensorRT-LLM#2443 (no KV cache, batch always 1), server#6863.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import (
    KV_BLOCKED,
    WAITS,
    batches_are_static,
    cache_is_short,
    nothing_held_back,
    parameter,
    parameter_change,
    wait_claim,
)
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.engine import (
    ENGINE_KV_BLOCKED,
    ENGINE_MICRO_BATCHES,
    ENGINE_PEAK_SCHEDULED,
    ENGINE_SLOTS,
    ENGINE_STATIC_BATCHING,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

BATCHING = "gpt_model_type"
IN_FLIGHT = "inflight_fused_batching"
ONE = Limit(value=1, unit=Unit.COUNT, because="an engine that batches in flight has several scheduled when others wait")
SEVERAL = Limit(value=2, unit=Unit.COUNT, because="an engine with one slot cannot run two requests at once")
# One request at a time has to be seen that often before it is no chance.
ENOUGH_READS = 5
CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={
        "engine_waiting_share": WAITS,
        "engine_peak_scheduled": ONE,
        "engine_slots": SEVERAL,
        "engine_kv_blocked_share": KV_BLOCKED,
    },
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE, Phase.ENGINE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := nothing_held_back(ledger, subject):
        return quiet
    if batches_are_static(ledger, subject):
        ledger.is_set(ENGINE_STATIC_BATCHING, subject)
        return _finding(ledger, subject, "runs each batch to its end before it starts another (V1)")
    if not ledger.at_most(ENGINE_PEAK_SCHEDULED, subject, ONE):
        return Quiet(because="several requests are scheduled at once")
    if (ledger.evidence.read(ENGINE_PEAK_SCHEDULED, subject).events or 0) < ENOUGH_READS:
        raise Undecided(ENGINE_PEAK_SCHEDULED.name, Missing.TOO_FEW_EVENTS)
    if not ledger.at_least(ENGINE_SLOTS, subject, SEVERAL):
        return Quiet(because="the engine has one slot")
    if cache_is_short(ledger.as_rival(), subject):
        return Quiet(because="the KV cache has no room for a second request")
    return _finding(
        ledger, subject, f"runs one request at a time although it has {ledger.need(ENGINE_SLOTS, subject):.0f} slots"
    )


def _finding(ledger: Ledger, subject: Subject, what: str) -> Fires:
    wait = ledger.need(ENGINE_WAIT_SECONDS, subject)
    return Fires(
        summary=f"the engine of {subject.model} {what}: {Unit.COUNT.show(ledger.need(ENGINE_WAITING, subject))} "
        f"requests wait inside, {Unit.SECONDS.show(wait)} each",
        claims=(wait_claim(ledger, subject),),
        saved_seconds=wait,
        suggestion=_suggestion(ledger, subject),
    )


def _suggestion(ledger: Ledger, subject: Subject) -> Suggestion:
    now = parameter(ledger, subject, BATCHING)
    if now and now != IN_FLIGHT:
        return Suggestion(
            text=f"set {BATCHING} of {subject.model} from {now} to {IN_FLIGHT}, with an engine built for it (paged KV "
            "cache, packed inputs); unload the model first",
            change=parameter_change(subject, BATCHING, IN_FLIGHT),
        )
    return Suggestion(
        text=f"let {subject.model}'s engine batch in flight ({BATCHING} {IN_FLIGHT}), and build it with a paged KV "
        "cache and packed inputs if it is not"
    )


_ONE_BY_ONE = {
    REQUESTS: 60,
    REQUEST_SECONDS: 10.0,
    ENGINE_WAITING: 9,
    ENGINE_WAITING_SHARE: 1.0,
    ENGINE_WAIT_SECONDS: 9.0,
    ENGINE_MICRO_BATCHES: 1,
    ENGINE_STATIC_BATCHING: 0,
    ENGINE_PEAK_SCHEDULED: 1,
    ENGINE_SLOTS: 32,
    ENGINE_KV_BLOCKED: 0,
}
CASES = (
    CheckCase.fires("when only one of many slots is used", _ONE_BY_ONE),
    CheckCase.fires("when batches are static", {**_ONE_BY_ONE, ENGINE_STATIC_BATCHING: 1, ENGINE_PEAK_SCHEDULED: 8}),
    CheckCase.quiet("when the engine has one slot", {**_ONE_BY_ONE, ENGINE_SLOTS: 1}),
    CheckCase.quiet("when the cache holds one sequence only", {**_ONE_BY_ONE, ENGINE_KV_BLOCKED: 1}),
    CheckCase.quiet(
        "about static batches in which nothing waits",
        {**_ONE_BY_ONE, ENGINE_STATIC_BATCHING: 1, ENGINE_WAITING: 0, ENGINE_WAITING_SHARE: 0},
    ),
    CheckCase.unknown(
        "when the KV cache cannot be read", {k: v for k, v in _ONE_BY_ONE.items() if k is not ENGINE_KV_BLOCKED}
    ),
)
