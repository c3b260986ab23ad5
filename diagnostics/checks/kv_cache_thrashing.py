"""The engine pauses requests for lack of KV cache and continues them later.

## Looks for
The engine has paused requests at many reads, and its KV cache is nearly full. The policy is `max_utilization` or
unknown.

## Means
The engine admitted more sequences than its cache can hold until they end. When blocks run out, it takes them from some
requests, and their work is repeated later. Tokens then arrive in bursts, and the slowest requests get far slower. The
time to the first token may even improve.

## Rules out
- `guaranteed_no_evict`: it never pauses, and requests wait before they start (`kv-cache-exhausted`).
- A few paused requests next to many that wait: pausing costs little (`kv-cache-exhausted`).
- A full cache without paused requests: it keeps blocks for reuse, which is healthy.

## Do
1. Set `batch_scheduler_policy` to `guaranteed_no_evict`, as the patch shows if the setting exists. Requests then wait
   before they start, not in the middle. This is a full reload: unload the model first.
2. Give the cache more memory (`kv_cache_free_gpu_mem_fraction`, `max_tokens_in_paged_kv_cache`), or quantize it.
3. Judge by the p99 of the time per output token, not by the time to the first token.

## Sources
TensorRT-LLM#16827 (under pressure: throughput −41 %, p99 per token 9 times worse, time to first token better). "Model
configuration" of tensorrtllm_backend, batch scheduler policy. Little's law for the time spent paused.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import (
    EVICTS,
    KV_FULL,
    PAUSED,
    engine_phase,
    larger_cache,
    never_pauses,
    nothing_held_back,
    parameter,
    parameter_change,
    pausing_is_cheap,
)
from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.signals.engine import (
    ENGINE_KV_USED,
    ENGINE_MAX_UTILIZATION,
    ENGINE_PAUSE_SECONDS,
    ENGINE_PAUSED,
    ENGINE_PAUSED_SHARE,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
    GUARANTEED_NO_EVICT,
    MAX_UTILIZATION,
)
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

POLICY = "batch_scheduler_policy"
CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={"engine_paused_share": PAUSED, "engine_kv_used_share": KV_FULL, "engine_max_utilization": EVICTS},
    symptom="engine-pauses-requests",
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.evidence.is_engine(subject):
        return Quiet(because="not an engine")
    if not ledger.read(REQUESTS, subject).value:
        return Quiet(because="no traffic")
    if ledger.evidence.read(ENGINE_WAITING, subject).value is None:
        return Quiet(because="the engine exports no gauges")
    if not ledger.at_least(ENGINE_PAUSED_SHARE, subject, PAUSED):
        return Quiet(because="requests are seldom paused")
    if cheap := pausing_is_cheap(ledger, subject):
        return Quiet(because=cheap)
    if never_pauses(ledger, subject):
        return _paused_against_policy(ledger, subject)
    return _finding(ledger, subject)


def _paused_against_policy(ledger: Ledger, subject: Subject) -> Quiet:
    """Return that the policy pauses nothing, where requests that wait explain the gauge.

    Raises:
        Undecided: nothing waits long enough, so that the gauge and the configured policy contradict each other.

    """
    if nothing_held_back(ledger, subject) is not None:
        raise Undecided(ENGINE_PAUSED_SHARE.name, Missing.CONFLICTING)
    return Quiet(because="the policy is guaranteed_no_evict: requests wait for the cache before they start")


def _finding(ledger: Ledger, subject: Subject) -> Fires:
    lost = ledger.need(ENGINE_PAUSE_SECONDS, subject)
    return Fires(
        summary=f"the engine of {subject.model} has {Unit.COUNT.show(ledger.need(ENGINE_PAUSED, subject))} requests "
        f"paused for lack of KV cache, {Unit.SECONDS.show(lost)} each, and does part of their work twice",
        claims=(Claim(stage=subject.model or "", phase=engine_phase(ledger, subject), seconds=lost),),
        saved_seconds=lost,
        suggestion=_suggestion(ledger, subject),
    )


def _suggestion(ledger: Ledger, subject: Subject) -> Suggestion:
    if parameter(ledger, subject, POLICY).lower() != MAX_UTILIZATION:
        return larger_cache(ledger, subject)
    return Suggestion(
        text=f"set {POLICY} of {subject.model} from {MAX_UTILIZATION} to {GUARANTEED_NO_EVICT}, or give its KV cache "
        "more memory; unload the model first",
        change=parameter_change(subject, POLICY, GUARANTEED_NO_EVICT),
    )


_THRASHING = {
    REQUESTS: 300,
    REQUEST_SECONDS: 60.0,
    ENGINE_WAITING: 20,
    ENGINE_WAITING_SHARE: 1.0,
    ENGINE_WAIT_SECONDS: 52.0,
    ENGINE_PAUSED: 8,
    ENGINE_PAUSED_SHARE: 0.8,
    ENGINE_PAUSE_SECONDS: 21.0,
    ENGINE_KV_USED: 0.97,
    ENGINE_MAX_UTILIZATION: 1,
}
CASES = (
    CheckCase.fires("when requests are paused at most reads", _THRASHING),
    CheckCase.quiet("under the policy that never pauses", {**_THRASHING, ENGINE_MAX_UTILIZATION: 0}),
    CheckCase.quiet("about a full cache with nothing paused", {**_THRASHING, ENGINE_PAUSED: 0, ENGINE_PAUSED_SHARE: 0}),
    CheckCase.quiet("when blocks are free", {**_THRASHING, ENGINE_KV_USED: 0.4}),
    CheckCase.unknown(
        "when the engine does not count paused requests",
        {k: v for k, v in _THRASHING.items() if k is not ENGINE_PAUSED_SHARE},
    ),
)
