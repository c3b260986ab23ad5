"""Another model on the same GPU takes the time that this model's executions need.

## Looks for
A model's executions and queue grow while models of other ensembles work on its cards. Its own load is the same, and the
card has no time left.

## Means
Models of one server share a card as processes do: each is slower while the other works. Neither model is at fault:
together they need more than the card has at those times.

## Rules out
- Stages of the same ensemble: their load rises together and belongs to that ensemble (`gpu-saturated`).
- Another process (`gpu-contended-by-other-process`).
- More requests of its own at those times: then nothing is reported.
- Two models that are each slightly slower than alone: below 15 % of a request's time, sharing explains it.

## Do
1. Give the model that must be fast its own card (`instance_group.gpus`), or move the other to another server.
2. Share by a rule: Triton's rate limiter (`--rate-limit=execution_count`) with priorities, or MIG (hardware partitions,
   one server on each).
3. Move the other model's batch work to quiet hours.

## Sources
Triton user guide, "Rate limiter". server#2698, server#4603, server#3755 (two models on one card, each slower
than alone).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import engine_phase
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_TIME_FULL
from diagnostics.signals.neighbours import NEIGHBOUR_EXCESS_COMPUTE, NEIGHBOUR_EXCESS_QUEUE, NEIGHBOUR_LANES
from diagnostics.signals.signal import Reading, Scope, Signal, Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.units import Unit

WORK = Limit(
    value=0.1,
    unit=Unit.COUNT,
    because="neighbours that execute under a tenth of the time take under a tenth of the card",
)
FULL = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="a card that is out of time in under a tenth of the samples has turns to give to both",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.MODEL,
    limits={"neighbour_lanes": WORK, "gpu_time_full": FULL},
    symptom="model-queue-dominates",
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.at_least(NEIGHBOUR_LANES, subject, WORK):
        return Quiet(because="no other ensemble's model works on its cards")
    if not ledger.at_least(GPU_TIME_FULL, subject, FULL):
        return Quiet(because="the card has time left")
    ledger.need(NEIGHBOUR_EXCESS_COMPUTE, subject)
    compute = _grown(ledger, NEIGHBOUR_EXCESS_COMPUTE, subject)
    queue = _grown(ledger, NEIGHBOUR_EXCESS_QUEUE, subject)
    if not ledger.worthwhile("taken_by_neighbours", subject, compute + queue):
        return Quiet(because="requests hardly take longer while the neighbours work")
    total = (compute + queue).value or 0.0
    return Fires(
        summary=f"requests take {Unit.SECONDS.show(total)} longer in {subject.model} on average because of models of "
        "other ensembles on the same GPU",
        claims=(
            Claim(stage=subject.model or "", phase=_executing(ledger, subject), seconds=compute.value or 0.0),
            Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=queue.value or 0.0),
        ),
        saved_seconds=total,
        suggestion=Suggestion(
            text=f"give {subject.model} or its neighbours a card of their own (instance_group.gpus), or share by the "
            "rate limiter's priorities (--rate-limit=execution_count, at a restart)",
            relieves=True,
        ),
    )


def _executing(ledger: Ledger, subject: Subject) -> Phase:
    return engine_phase(ledger, subject) if ledger.evidence.is_engine(subject) else Phase.COMPUTE


def _grown(ledger: Ledger, signal: Signal, subject: Subject) -> Reading:
    reading = ledger.read(signal, subject)
    return Reading.of(max(reading.value or 0.0, 0.0), Unit.SECONDS, reading.source)


_SHARED = {
    NEIGHBOUR_LANES: 0.5,
    GPU_TIME_FULL: 0.5,
    NEIGHBOUR_EXCESS_COMPUTE: 0.02,
    NEIGHBOUR_EXCESS_QUEUE: 0.01,
    ON_GPU: 1,
    REQUEST_SECONDS: 0.08,
}
CASES = (
    CheckCase.fires("when it is slower while neighbours work", _SHARED),
    CheckCase.quiet("when nobody else works on the card", {**_SHARED, NEIGHBOUR_LANES: 0.0}),
    CheckCase.quiet("when the card has time for both", {**_SHARED, GPU_TIME_FULL: 0.0}),
    CheckCase.quiet(
        "when the model is as fast as without neighbours",
        {**_SHARED, NEIGHBOUR_EXCESS_COMPUTE: 0.001, NEIGHBOUR_EXCESS_QUEUE: 0.0},
    ),
    CheckCase.unknown(
        "when neighbours never idle", {k: v for k, v in _SHARED.items() if k is not NEIGHBOUR_EXCESS_COMPUTE}
    ),
)
