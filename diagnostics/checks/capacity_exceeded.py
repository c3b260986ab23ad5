"""More requests arrive than this deployment can serve at any setting.

## Looks for
Instances are busy, batches are as large as they get, and requests wait. The device has too little headroom: no instance
count on it would keep up.

## Means
Requests arrive faster than they can be served. The queue grows as long as this lasts. Its length shows how long the
overload has lasted, not how slow the model is.

## Rules out
- Too few instances, with room on the device for more (`single-instance-serialization`).
- A GPU that is full already (`gpu-saturated`), or full processors (`host-cpu-starved`).
- Batches that could be larger (`batch-size-collapse`).
- A next stage that completes less than this one passes on: requests would wait there instead.

## Do
1. Add replicas, or shed load in front of Triton before latency grows further.
2. In a load test, this is the saturation point: lower the rate.
3. Measure again (`diag explain HOST:8000`): the queue drains only once arrivals fall below throughput.

## Sources
server#3416, server#7986 (latency = outstanding requests ÷ throughput at saturation). Little's law.
"""

from __future__ import annotations

from math import ceil

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.gates import LANE_LIMITS, SHORT_OF_LANES, first_rival
from diagnostics.checks.instances import scaling
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import DEVICE_HEADROOM, HOST_CPU_BUSY
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, BATCH_SIZE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits=LANE_LIMITS,
    symptom="model-queue-grows",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := first_rival(ledger, subject, SHORT_OF_LANES):
        return quiet
    return _at_any_count(ledger, subject)


def _at_any_count(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    seconds = ledger.need(QUEUE_SECONDS, subject) + ledger.need(EXECUTION_SECONDS, subject)
    more = scaling(ledger, subject, seconds)
    load, most = more.load, more.most
    if most.stable:
        return Quiet(because="more instances on this device may keep up")
    queue = ledger.evidence.read(QUEUE_SECONDS, subject)
    if not ledger.worthwhile("queue_seconds", subject, queue):
        return Quiet(because="the queue is a small part of the request")
    replicas = ceil(load.arrival_rate / most.capacity_per_second) + 1
    offered, served = (
        Unit.PER_SECOND.show(items / load.items) for items in (load.arrival_rate, most.capacity_per_second)
    )
    return Fires(
        summary=f"{subject.model} is offered {offered} and can serve at most {served} on this device at any instance "
        "count",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=queue.value or 0.0),),
        saved_seconds=queue.value or 0.0,
        suggestion=Suggestion(
            text=f"serve {subject.model} from {replicas} replicas, or shed load in front of Triton",
            remedy=Remedy.MITIGATE,
            load=1 / replicas,
        ),
    )


_FLOOD = {
    QUEUE_SECONDS: 3.0,
    INSTANCE_BUSY_SHARE: 0.99,
    INSTANCES: 4,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    BATCH_SIZE: 1,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 400,
    EXECUTION_SECONDS: 0.02,
    REQUEST_SECONDS: 3.1,
    DEVICE_HEADROOM: 0.2,
    HOST_CPU_BUSY: 0.3,
}
CASES = (
    CheckCase.fires("when twice as much arrives as the device can serve", _FLOOD),
    CheckCase.quiet("when more instances would keep up", {**_FLOOD, ARRIVAL_RATE: 201, DEVICE_HEADROOM: 0.8}),
    CheckCase.quiet("when the device is full", {**_FLOOD, DEVICE_HEADROOM: 0.02}),
    CheckCase.quiet("when nothing waits", {**_FLOOD, QUEUE_SECONDS: 0.001}),
    CheckCase.unknown(
        "when the device was not measured", {k: v for k, v in _FLOOD.items() if k is not DEVICE_HEADROOM}
    ),
)
