"""Requests wait inside the engine for a slot, while its KV cache has room.

## Looks for
The engine's scheduled requests stay at its maximum while others wait inside it. KV blocks are free for more. Triton's
own queue shows nothing: the engine accepts every request at once.

## Means
The engine was built or configured for fewer sequences at a time than arrive. The wait is part of the engine's time, so
the model looks slow.

## Rules out
- A full KV cache: slots are free then (`kv-cache-exhausted`).
- Requests paused for much of their time: more slots would pause more (`kv-cache-thrashing`).
- An engine that schedules one request at a time, whatever its maximum (`inflight-batching-off`).
- Pipeline parallelism: requests of other micro batches look as if they waited.
- A burst: requests wait at few reads only.
- Another process that takes most of the card: slots stay taken because iterations are long. The result is unknown.

Where the engine exports no KV cache, nearly all slots have to be taken at nearly all reads. A full cache leaves some
free.

## Do
1. Read the number of slots: `curl -s HOST:8002/metrics | grep nv_trt_llm_request_metrics`, type `max`. If
   `max_batch_size` in `config.pbtxt` is below what the engine was built for, raise it there. This is a full reload:
   unload the old copy first, or the new one lacks memory for its KV cache.
2. Otherwise build the engine again with a larger `--max_batch_size`. Larger batches slow iterations a little and need
   KV cache for more sequences: check both.
3. Never raise `instance_group.count` of an engine: each copy loads its own weights and KV cache.

## Sources
tensorrtllm_backend, "Model configuration". server#6863: the backend keeps its own queue and refills slots each
iteration. tensorrtllm_backend#274, fastertransformer_backend#72: a second engine instance runs out of memory or is
slower. Little's law for the wait.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import (
    HELD_LIMITS,
    SLOTS_LEFT,
    SLOTS_TAKEN,
    cache_is_short,
    held_earlier,
    restarted_with,
    slots_are_taken,
    wait_claim,
)
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.engine import (
    ENGINE_KV_BLOCKED,
    ENGINE_MICRO_BATCHES,
    ENGINE_PEAK_FILL,
    ENGINE_PEAK_HELD,
    ENGINE_SLOT_FILL,
    ENGINE_SLOTS,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.neighbours import FOREIGN_SHARE
from diagnostics.signals.signal import Missing, Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={**HELD_LIMITS, "engine_slots_left": SLOTS_LEFT},
    symptom="engine-slots-full",
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE, Phase.ENGINE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := held_earlier(ledger, subject, 2):
        return quiet
    if not slots_are_taken(ledger, subject):
        return Quiet(because="slots are free while requests wait")
    if _may_be_held_by_others(ledger, subject):
        raise ledger.conflicting(FOREIGN_SHARE)
    if _nothing_but_slots(ledger, subject):
        return _finding(ledger, subject, "and nothing shows whether its KV cache has room for more at once")
    if cache_is_short(ledger.as_rival(), subject):
        return Quiet(because="the KV cache is as short as the slots: neither limit alone would help")
    return _finding(ledger, subject, "while its KV cache has room")


def _may_be_held_by_others(ledger: Ledger, subject: Subject) -> bool:
    """Return whether slots would be free without the turns that other processes take of the card.

    Iterations, and with them the stay of each request, would be shorter by that share (Little's law).
    """
    fill = ledger.evidence.read(ENGINE_SLOT_FILL, subject).value or 0.0
    taken = ledger.evidence.read(FOREIGN_SHARE, subject).value or 0.0
    return fill * (1.0 - taken) < SLOTS_TAKEN.value


def _nothing_but_slots(ledger: Ledger, subject: Subject) -> bool:
    """Return whether slots that are nearly always taken are all that the engine shows: it exports no KV cache.

    A cache that held requests back would leave slots free.
    """
    blocked = ledger.evidence.read(ENGINE_KV_BLOCKED, subject)
    return blocked.missing is Missing.NOT_EXPORTED and ledger.at_least(ENGINE_SLOT_FILL, subject, SLOTS_LEFT)


def _finding(ledger: Ledger, subject: Subject, cache: str) -> Fires:
    wait, slots = ledger.need(ENGINE_WAIT_SECONDS, subject), round(ledger.need(ENGINE_SLOTS, subject))
    return Fires(
        summary=f"all {slots} slots of {subject.model}'s engine are taken: "
        f"{Unit.COUNT.show(ledger.need(ENGINE_WAITING, subject))} "
        f"requests wait inside it, {Unit.SECONDS.show(wait)} each, {cache}",
        claims=(wait_claim(ledger, subject),),
        saved_seconds=wait,
        suggestion=_suggestion(ledger, subject, slots),
    )


def _suggestion(ledger: Ledger, subject: Subject, slots: int) -> Suggestion:
    wanted = _wanted(slots, ledger.read(ENGINE_PEAK_HELD, subject).value or 0.0)
    if kind := ledger.evidence.server_kind(subject):
        setting = Setting(path="engine.max_batch_size", value=wanted)
        return restarted_with(kind, subject, kind.slots, setting, slots)
    config = ledger.evidence.config(subject)
    if config is None or config.backend not in names.ENGINE_BACKENDS_WITH_TIME:
        return Suggestion(
            text=f"let the engine of {subject.model} run {wanted} requests at a time instead of {slots}: build it "
            "with a larger max_batch_size (never more instances of it)"
        )
    return Suggestion(
        text=f"build the engine of {subject.model} with max_batch_size {wanted} instead of {slots}; with a KV cache "
        "for as many sequences, and never more instances of it",
        change=ConfigChange(model=subject.model or "", settings=(Setting(path="engine.max_batch_size", value=wanted),)),
    )


def _wanted(slots: int, held: float) -> int:
    """Return two or four times the slots.

    A saturated engine's backlog is larger than what a wider one would hold, so all of it is never needed.
    """
    return 2 * slots if held <= 2 * slots else 4 * slots


_FULL = {
    REQUESTS: 800,
    REQUEST_SECONDS: 1.6,
    ENGINE_WAITING: 33,
    ENGINE_WAITING_SHARE: 1.0,
    ENGINE_WAIT_SECONDS: 1.4,
    ENGINE_MICRO_BATCHES: 1,
    ENGINE_SLOTS: 4,
    ENGINE_SLOT_FILL: 0.92,
    ENGINE_PEAK_FILL: 1.0,
    ENGINE_KV_BLOCKED: 0.0,
}
_UNSEEN = {signal: value for signal, value in _FULL.items() if signal is not ENGINE_KV_BLOCKED}
CASES = (
    CheckCase.fires("when all slots are taken and the cache has room", _FULL),
    CheckCase.quiet(
        "when the KV cache is the limit",
        {**_FULL, ENGINE_SLOT_FILL: 0.12, ENGINE_PEAK_FILL: 0.13, ENGINE_KV_BLOCKED: 0.9},
    ),
    CheckCase.quiet(
        "when requests waited at one read of twenty",
        {**_FULL, ENGINE_WAITING: 1.4, ENGINE_WAITING_SHARE: 0.05, ENGINE_WAIT_SECONDS: 0.09},
    ),
    CheckCase.quiet("under pipeline parallelism", {**_FULL, ENGINE_MICRO_BATCHES: 2}),
    CheckCase.fires(
        "when nearly all slots are always taken, and no KV cache is exported", {**_UNSEEN, ENGINE_SLOT_FILL: 0.96}
    ),
    CheckCase.unknown("when no KV cache is exported and some slots are free", {**_UNSEEN, ENGINE_SLOT_FILL: 0.84}),
)
