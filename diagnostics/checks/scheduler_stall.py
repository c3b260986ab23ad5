"""Requests wait in Triton's scheduler although instances are free.

## Looks for
A queue exists although instances are free. Traces show waits without an explanation. If every request is traced:
instances are free while requests wait. Otherwise: waits exceed what a queue of limited length can cause.

## Means
The dynamic batcher sleeps while work waits. Any queue policy (`max_queue_size`, a timeout, priorities) turns off its
prefetching, and a wake-up can then be lost. The batcher then sleeps up to 500 ms, or until it accepts the next request.
With a short limit, requests are refused meanwhile.

## Rules out
- Instances that are busy (`single-instance-serialization`, `capacity-exceeded`).
- A batching window, which waits by design (`batch-window-mistuned`): its length is subtracted.
- Bursts: the wait that a full queue explains is subtracted (`bursty-arrivals`).
- Instances that hang or are gone (`execution-hung`), and the rate limiter (`single-instance-serialization`).
- Too few instances for the offered load, refused requests included: without the policy, the queue grows without end
  (`queue-rejections`).
- A host without spare CPU, whose threads wake up late (`host-cpu-starved`).

## Do
1. Remove the model's queue policy as the patch shows. Then run `curl -X POST HOST:8000/v2/repository/models/NAME/load`.
   Limit load in front of Triton instead.
2. If the policy must stay: a steady trickle of requests wakes the batcher, and a longer limit refuses fewer.
3. Without any policy: update Triton, and report the stall with a trace of every request (`--trace-config rate=1`).

## Sources
Triton core, `dynamic_batch_scheduler.cc` and `scheduler_utils.cc` (prefetching is off when a queue policy is set).
Measured on 24.10 with a limit of 4: stalls of 0.5 s held 480 of 768 refused requests. The instance was 59 % busy.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.gates import BUSY, HOST_FULL, QUEUE, has_lost_instances, host_is_full
from diagnostics.checks.instances import is_short
from diagnostics.evidence.capacity import instances_busy, limiting
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, QUEUE_LIMIT
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.traces import BLOCKED_SECONDS
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"queue": QUEUE, "busy": BUSY, "host_cpu_busy": HOST_FULL},
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine schedules its requests itself")
    if not ledger.at_least(QUEUE_SECONDS, subject, QUEUE):
        return Quiet(because="requests hardly wait")
    if instances_busy(ledger.as_rival(), subject, BUSY):
        return Quiet(because="instances are busy: requests wait for them")
    if ledger.need(QUEUE_SECONDS, subject) <= ledger.need(BATCH_DELAY, subject):
        return Quiet(because="requests wait for the batching window")
    if limiting(ledger.evidence, subject.server) is not None:
        return Quiet(because="the rate limiter holds executions back")
    if has_lost_instances(ledger, subject):
        return Quiet(because="instances that are hung or gone take no request")
    blocked = _blocked(ledger, subject)
    if not ledger.worthwhile(BLOCKED_SECONDS.name, subject, blocked):
        return Quiet(because="busy instances and a full queue explain the waits")
    if host_is_full(ledger, subject):
        return Quiet(because="the host's processors are full: threads wake late")
    if is_short(ledger, subject):
        return Quiet(because="more is offered than its instances can do: without its queue policy the queue would grow")
    return _finding(ledger, subject, blocked.value or 0.0)


def _blocked(ledger: Ledger, subject: Subject) -> Reading:
    """Return how long requests wait with an instance free, of their whole queue.

    Raises:
        Undecided: nothing traced it, or traces of another time, as of before a load with another queue policy.

    """
    ledger.need(BLOCKED_SECONDS, subject)
    blocked, queue = ledger.evidence.read(BLOCKED_SECONDS, subject), ledger.evidence.read(QUEUE_SECONDS, subject)
    if blocked.low is not None and queue.high is not None and blocked.low > queue.high:
        raise ledger.conflicting(BLOCKED_SECONDS)
    return blocked


def _finding(ledger: Ledger, subject: Subject, blocked: float) -> Fires:
    busy, queue = ledger.need(INSTANCE_BUSY_SHARE, subject), ledger.need(QUEUE_SECONDS, subject)
    return Fires(
        summary=f"{Unit.SECONDS.show(blocked)} of the {Unit.SECONDS.show(queue)} that requests wait for "
        f"{subject.model} pass with an instance free; instances are busy {Unit.RATIO.show(busy)} of the time",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=blocked),),
        saved_seconds=blocked,
        suggestion=_suggestion(ledger, subject),
    )


def _suggestion(ledger: Ledger, subject: Subject) -> Suggestion:
    if not ledger.read(QUEUE_LIMIT, subject).value:
        return Suggestion(text=f"update Triton: its scheduler sleeps while requests wait for {subject.model}")
    setting = Setting(path="dynamic_batching.default_queue_policy", value=None)
    return Suggestion(
        text=f"remove the queue policy of {subject.model} and limit load in front of Triton: with a policy its "
        "scheduler can sleep up to 0.5 s while requests wait",
        change=ConfigChange(model=subject.model or "", settings=(setting,)),
    )


_STALLED = {
    QUEUE_SECONDS: 0.117,
    INSTANCE_BUSY_SHARE: 0.59,
    BLOCKED_SECONDS: 0.05,
    DYNAMIC_BATCHING: 1,
    BATCH_DELAY: 0.0,
    QUEUE_LIMIT: 4,
    REQUEST_SECONDS: 0.26,
    HOST_CPU_BUSY: 0.2,
}
CASES = (
    CheckCase.fires("when requests wait although instances are free", _STALLED),
    CheckCase.quiet("when instances are busy", {**_STALLED, INSTANCE_BUSY_SHARE: 0.93}),
    CheckCase.quiet("when a full queue explains the waits", {**_STALLED, BLOCKED_SECONDS: 0.001}),
    CheckCase.quiet("within a batching window", {**_STALLED, BATCH_DELAY: 0.15}),
    CheckCase.quiet("on a host without spare CPU", {**_STALLED, HOST_CPU_BUSY: 0.98}),
    CheckCase.unknown(
        "without traces", {signal: value for signal, value in _STALLED.items() if signal is not BLOCKED_SECONDS}
    ),
)
