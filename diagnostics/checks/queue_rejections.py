"""Requests are refused by a full queue, or expire in it.

## Looks for
Requests outlived a queue policy's timeout (failure reason REJECTED). Or clients get HTTP 503 while a queue with
`max_queue_size` is half full or more. Or one stage completed requests that the next stage, with `max_queue_size`, never
accepted, while the ensemble reports failures.

## Means
The queue policy works as configured: it sheds load. Clients see HTTP 503 or gRPC UNAVAILABLE. No counter records a full
queue. In an ensemble, it shows as failures with reason OTHER while no member fails.

## Rules out
- Errors of the model itself (`request-failures`): they come after its execution.
- Requests still waiting: the pending count is subtracted.

## Do
1. Remove what fills the queue: the finding that causes this one names it. Without such a finding, reduce arrivals or
   serve more. Add instances if they cannot keep up with the offered load and the device has room.
2. Any queue policy turns off Triton's prefetching, and a wake-up can then be lost. Work may wait up to 0.5 s while
   instances idle. If the instances keep up with the offered load, remove `max_queue_size` and limit load in front of
   Triton. If they do not, keep it: without a limit the queue grows without end.

## Sources
Triton user guide, "Queue policy". Core, dynamic batch scheduler: `Exceeds maximum queue size` returns from enqueue and
changes no counter of the model. Measured on 24.10: with a limit of 4, stalls of 0.5 s at 59 % busy instances.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.entries import ENOUGH_FAILURES, FAILED_PART, caller_of, failed_share, is_newest
from diagnostics.checks.gates import BUSY, device_is_full, host_is_full
from diagnostics.checks.instances import instances_change, is_short, scaling
from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_REQUESTS, LOST_BEFORE_STAGE, REJECTED_REQUESTS
from diagnostics.signals.outages import REFUSED_AT_QUEUE
from diagnostics.signals.settings import QUEUE_LIMIT
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUESTS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"refused_requests": ENOUGH_FAILURES, "refused_share": FAILED_PART, "busy": BUSY},
    symptom="requests-fail",
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    refused = _refused(ledger, subject)
    if not ledger.compare("refused_requests", refused, ENOUGH_FAILURES):
        return Quiet(because="no request was refused")
    share = failed_share(ledger, subject, refused)
    if not ledger.compare("refused_share", share, FAILED_PART):
        return Quiet(because="hardly any request was refused")
    limit = ledger.read(QUEUE_LIMIT, subject).value or 0.0
    policy = f"its queue holds {limit:.0f}" if limit else "they outlived its queue timeout"
    return Fires(
        summary=f"{subject.model} refuses {Unit.RATIO.show(share.value)} of requests: {policy}",
        failed_share=share.value or 0.0,
        suggestion=_suggestion(ledger, subject, limit),
    )


def _refused(ledger: Ledger, subject: Subject) -> Reading:
    """Expired requests, plus those lost in front of a limited queue as far as clients or callers report failures."""
    seen = ledger.evidence.read(REFUSED_AT_QUEUE, Subject(server=subject.server, model=subject.model))
    expired = ledger.read(REJECTED_REQUESTS, subject)
    limit, lost = ledger.read(QUEUE_LIMIT, subject), ledger.read(LOST_BEFORE_STAGE, subject)
    if seen.value and is_newest(ledger, subject):
        return seen if expired.value is None else expired + seen
    if not limit.value or lost.value is None:
        return expired
    failed = ledger.read(FAILED_REQUESTS, caller_of(ledger, subject))
    if failed.value is None:
        return expired
    at_queue = Reading.of(max(min(lost.value, failed.value), 0.0), Unit.COUNT, lost.source, estimated=True)
    return at_queue if expired.value is None else expired + at_queue


def _suggestion(ledger: Ledger, subject: Subject, limit: float) -> Suggestion:
    if is_short(ledger, subject):
        return _more_instances(ledger, subject) or _less_load(subject)
    busy = ledger.read(INSTANCE_BUSY_SHARE, subject).value
    if limit and busy is not None and busy < BUSY.value:
        path = "dynamic_batching.default_queue_policy.max_queue_size"
        return Suggestion(
            text=f"drop max_queue_size of {subject.model} and limit load in front of Triton: with a queue policy "
            "work can wait up to 0.5 s while instances idle",
            change=ConfigChange(model=subject.model or "", settings=(Setting(path=path, value=None),)),
        )
    return _less_load(subject)


def _more_instances(ledger: Ledger, subject: Subject) -> Suggestion | None:
    """Return the number of instances that do what is offered; None where the host or the device has no room for it."""
    try:
        either = ledger.as_alternative()
        if host_is_full(either, subject) or device_is_full(either, subject):
            return None
        more = scaling(ledger, subject, ledger.need(QUEUE_SECONDS, subject) + ledger.need(EXECUTION_SECONDS, subject))
    except Undecided:
        return None
    if more.forecast is None:
        return None
    words, change = instances_change(ledger, subject, more.load.instances, more.count)
    show = Unit.PER_SECOND.show
    return Suggestion(
        text=f"raise {words}: it is offered {show(more.load.arrival_rate / more.load.items)} and can do "
        f"{show(more.now.capacity_per_second / more.load.items)}; keep max_queue_size, since without a limit the queue "
        "would grow without end",
        change=change,
    )


def _less_load(subject: Subject) -> Suggestion:
    return Suggestion(
        text=f"give {subject.model} the capacity for what arrives, or shed load in front of Triton; a longer queue "
        "only trades refusals for waiting",
        remedy=Remedy.MITIGATE,
    )


_FULL = {
    REJECTED_REQUESTS: 0,
    QUEUE_LIMIT: 4,
    LOST_BEFORE_STAGE: 430,
    FAILED_REQUESTS: 437,
    REQUESTS: 648,
    INSTANCE_BUSY_SHARE: 0.99,
}
CASES = (
    CheckCase.fires("when a limited queue loses what the callers report failed", _FULL),
    CheckCase.fires(
        "when requests outlive the queue's timeout",
        {**_FULL, QUEUE_LIMIT: 0, REJECTED_REQUESTS: 90, FAILED_REQUESTS: 90},
    ),
    CheckCase.quiet("when no caller reports a failure", {**_FULL, FAILED_REQUESTS: 0}),
    CheckCase.quiet("without a queue limit", {**_FULL, QUEUE_LIMIT: 0}),
    CheckCase.unknown("when failures are not exported", {QUEUE_LIMIT: 0, REQUESTS: 648}),
)
