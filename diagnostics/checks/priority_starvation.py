"""Low-priority requests wait while high-priority ones overtake them.

## Looks for
A model with priority levels has instances that are nearly always busy. The slowest requests in its queue wait many
times as long as the median.

## Means
Triton's dynamic batcher always serves the highest level that has requests. While higher levels keep the instances busy,
the lowest waits without bound. The mean looks acceptable, but one class of users is not served.

## Rules out
- First come, first served at the same load: the 95th percentile is then at most eight times the median.
- Instances with room: no level starves (`batch-window-mistuned`).
- Bursts: they make every class wait (`bursty-arrivals`).

## Do
1. Give the low level its own model or replica, or add capacity for both.
2. Send fewer requests at the high level: use a default level in the middle, and priority only where needed.
3. Let low-level requests time out instead of waiting: set a `priority_queue_policy` with a timeout for that level.

## Sources
Triton user guide, "Model Configuration", priority levels and queue policy. Waits of a first-come, first-served queue:
P(W > t) = ρ·exp(−(1−ρ)·t/S), whose 95th percentile ÷ median is 7.8 at ρ = 0.7 and less above.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import waits
from diagnostics.checks.gates import BUSY, QUEUE
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import PRIORITY_LEVELS, QUEUE_SECONDS, QUEUE_SPREAD, REQUEST_SECONDS
from diagnostics.units import Unit

LEVELS = Limit(value=2, unit=Unit.COUNT, because="with one level no request overtakes")
UNEQUAL = Limit(
    value=10.0,
    unit=Unit.COUNT,
    because="in order of arrival the 95th percentile of waits is under eight times the median where instances are busy",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "queue": QUEUE,
        "priority_levels": LEVELS,
        "instance_busy_share": BUSY,
        "queue_spread": UNEQUAL,
    },
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not waits(ledger, subject, QUEUE):
        return Quiet(because="requests hardly wait")
    if not ledger.at_least(PRIORITY_LEVELS, subject, LEVELS):
        return Quiet(because="requests have no priorities")
    if not ledger.at_least(INSTANCE_BUSY_SHARE, subject, BUSY):
        return Quiet(because="instances are idle while requests wait")
    if not ledger.at_least(QUEUE_SPREAD, subject, UNEQUAL):
        return Quiet(because="requests wait about alike")
    queue = ledger.read(QUEUE_SECONDS, subject)
    if not ledger.worthwhile("queue", subject, queue):
        return Quiet(because="the wait is a small part of a request")
    spread, seconds = ledger.need(QUEUE_SPREAD, subject), queue.value or 0.0
    return Fires(
        summary=f"{subject.model} serves {ledger.need(PRIORITY_LEVELS, subject):.0f} priority levels with instances "
        f"that are always busy: the slowest requests wait {spread:.0f} times as long as the middle ones",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text=f"give the low priority of {subject.model} its own replica or a timeout, or send less at the high one"
        ),
    )


_STARVED = {
    QUEUE_SECONDS: 0.2,
    PRIORITY_LEVELS: 2,
    INSTANCE_BUSY_SHARE: 0.95,
    QUEUE_SPREAD: 40,
    REQUEST_SECONDS: 0.3,
}
CASES = (
    CheckCase.fires("when one class of requests waits for the other", _STARVED),
    CheckCase.quiet("without priorities", {**_STARVED, PRIORITY_LEVELS: 0}),
    CheckCase.quiet("when all classes wait alike", {**_STARVED, QUEUE_SPREAD: 5}),
    CheckCase.quiet("with room", {**_STARVED, INSTANCE_BUSY_SHARE: 0.3}),
    CheckCase.quiet("without a queue", {QUEUE_SECONDS: 0.0001}),
    CheckCase.unknown(
        "without the distribution of waits", {k: v for k, v in _STARVED.items() if k is not QUEUE_SPREAD}
    ),
)
