"""Sequences wait for a slot while the instances idle.

## Looks for
A model with the sequence batcher has waiting requests although its instances are mostly free.

## Means
Each sequence holds a slot from its first request to its last, or until it idles for `max_sequence_idle_microseconds`.
With all slots taken, new sequences wait in the backlog, however idle the instances are. Batches get small as sequences
end.

## Rules out
- Busy instances: capacity is too small then (`single-instance-serialization`).
- A dynamic batcher's window: sequence models have none (`batch-window-mistuned`).

## Do
1. Add slots: a larger `max_batch_size`, more instances, or with the oldest strategy a larger `max_candidate_sequences`.
2. Free slots sooner: let clients send the END flag, and lower `max_sequence_idle_microseconds` to the length of
   clients' pauses.
3. With the direct strategy, keep `max_queue_delay_microseconds` small: it holds slots of a batch for each other.

## Sources
Triton user guide, "Batchers", sequence batcher. server#4841 (batches of 64 decay to a few under 500 clients).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import waits
from diagnostics.checks.gates import BUSY, QUEUE
from diagnostics.evidence.capacity import instances_busy
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS, SEQUENCE_BATCHING
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"queue": QUEUE, "instance_busy_share": BUSY},
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not waits(ledger, subject, QUEUE):
        return Quiet(because="requests hardly wait")
    if not ledger.is_set(SEQUENCE_BATCHING, subject):
        return Quiet(because="no sequence batcher schedules it")
    if instances_busy(ledger.as_rival(), subject, BUSY):
        return Quiet(because="the instances are busy: capacity is short, not slots")
    queue = ledger.read(QUEUE_SECONDS, subject)
    if not ledger.worthwhile("queue", subject, queue):
        return Quiet(because="the wait is a small part of a request")
    seconds, busy = queue.value or 0.0, ledger.need(INSTANCE_BUSY_SHARE, subject)
    size = ledger.read(BATCH_SIZE, subject).value
    batches = f", in batches of {size:.1f}" if size is not None else ""
    return Fires(
        summary=f"sequences wait {Unit.SECONDS.show(seconds)} for a slot of {subject.model} while its instances are "
        f"busy {Unit.RATIO.show(busy)} of the time{batches}",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text=f"give {subject.model} more sequence slots (max_batch_size, instances, max_candidate_sequences), "
            "and free them sooner (END flag, max_sequence_idle_microseconds)"
        ),
    )


_SLOTS = {
    QUEUE_SECONDS: 0.5,
    SEQUENCE_BATCHING: 1,
    INSTANCE_BUSY_SHARE: 0.2,
    BATCH_SIZE: 2.1,
    REQUEST_SECONDS: 0.6,
}
CASES = (
    CheckCase.fires("when sequences wait and instances idle", _SLOTS),
    CheckCase.quiet("under another scheduler", {**_SLOTS, SEQUENCE_BATCHING: 0}),
    CheckCase.quiet("when instances are busy", {**_SLOTS, INSTANCE_BUSY_SHARE: 0.9}),
    CheckCase.quiet("without a queue", {QUEUE_SECONDS: 0.0}),
    CheckCase.unknown("without the configuration", {QUEUE_SECONDS: 0.5, REQUEST_SECONDS: 0.6}),
)
