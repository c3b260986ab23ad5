"""A stage's instances are all busy while the device under them has room.

## Looks for
Requests wait for an instance (queue time) while that model's instances are nearly always busy and the device has
headroom. Instance utilization comes from the batch statistics. Or executions use up a resource of the rate limiter
(`rate_limiter` in `instance_group`) while instances idle. Or executions take longer next to others than alone.
Or instances are taken away and added again and again, and requests wait only while there are fewer.

## Means
Each instance serves one request, or one batch, at a time, and there are too few instances. Usually there is one. Every
request of the pipeline waits for this stage, however fast the other stages are. Several instances can also be too few.
The rate limiter (`--rate-limit=execution_count`) can make several instances work as one. Without
`--rate-limit-resource`, Triton provides only as much of a resource as its most demanding instance needs. With
`count: 1`, one instance then executes at a time. While an instance waits for a resource, no other model of the server
starts an execution. Even models that need no resource may wait.

A lock that instances share has the same effect: a lock on a file or database, a mutex, a pool. One shared connection
does, too. All instances look busy, but throughput stays at that of one instance. If no execution ran next to fewer
others, work and waiting for a lock look the same. No instance count is proposed then.

## Rules out
- Batches that could form but do not: batching costs less than instances (`batch-size-collapse`).
- A queue caused by the batching window: instances are idle then (`batch-window-mistuned`).
- A full GPU or full processors: another instance would only share them (`gpu-saturated`, `host-cpu-starved`).
- Pauses of all instances, such as garbage collection or a paused container: new ones would pause, too. Some reads then
  have much longer executions, and those of quiet reads do not explain the wait. Only traces of each request decide it.
- Executions that wait for a disk for half of their time (threads in state D). New instances would wait, too.
- Responses that leave in order (`preserve_ordering`): what new instances finish early would wait for earlier ones.
- A model that waits for models it calls (`bls-serialization`). If a callee is the limit, the callee is named instead.
- A next stage that completes less than this one passes on: requests would wait there instead.
- With one instance, a lock or a slow service that a second one would share: nothing shows it in advance. If executions
  use no processor, the prediction says so.
- Instances that hang or are gone: new ones would only replace them (`execution-hung`).
- A rate limiter that is off (see the server's log).
- A rate limiter that is not the limit: its resources idle, or more instances execute.
- An LLM engine's row: the engine batches inside, so one instance serves many requests.

## Do
1. Raise `instance_group.count` of the model as the patch shows. Then load the model:
   `curl -X POST HOST:8000/v2/repository/models/NAME/load`. Polling loads it by itself. Without model control, restart
   Triton. The change is applied in place, without a reload.
2. Check that memory allows it: most backends load the weights once per instance.
3. If the rate limiter is the limit, remove `rate_limiter` from the `instance_group`. Or start Triton with
   `--rate-limit-resource=NAME:COUNT`. More instances would wait for the same resource.
4. If instances wait for each other, dump the stacks of two at once (`py-spy dump --pid STUB`). For file locks, run
   `cat /proc/locks`. Remove what they share, or hold it for less time.
5. If that stays unclear, run one instance alone under load, or trace every request (`rate=1`). If an execution is
   faster alone, instances share a lock, and more of them would wait for it.
6. Measure again (`diag explain HOST:8000`): the queue should drop to about the predicted value. If executions take
   twice as long instead, instances share a lock or thread pool. Undo the change and run the model in more processes.

## Sources
Triton user guide, "Model configuration", instance groups. server#5317, server#4387, server#6681. A public course lab:
one instance queued 132 ms at 18.9 ms of work, on an idle GPU. Measured on 24.10: three instances share a file lock, and
executions of 25 ms took 66 ms. Erlang C with Allen-Cunneen's correction.
"""

from __future__ import annotations

import msgspec

from diagnostics import names
from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.gates import LANE_LIMITS, SHORT_OF_LANES, expect_any_order, first_rival
from diagnostics.checks.instances import (
    UNEVEN,
    UNEXPLAINED,
    Scaling,
    are_long_at_times,
    callers_wait,
    expect_explained,
    instances_change,
    prediction,
    queue_of,
    scaling,
    when_taken_away,
    with_more_of_the_resource,
)
from diagnostics.checks.shared_lock import in_turns, takes_turns, work_or_turns
from diagnostics.evidence.capacity import IN_USE, busy_while_waiting, is_rate_limited, may_take_turns
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.capacity import MOST_AT_ONCE, RATE_LIMIT, RATE_LIMIT_USE
from diagnostics.signals.device import DEVICE_HEADROOM, HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, HARDLY_WAITS
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_SIZE,
    CLIENT_BATCH_SIZE,
    COMPUTE_SECONDS,
    QUEUE_SECONDS,
    REQUEST_SECONDS,
)
from diagnostics.tuning.queueing import StageForecast
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        **LANE_LIMITS,
        "rate_limiter_use": IN_USE,
        "explained_queue_share": UNEXPLAINED,
        "execution_dispersion": UNEVEN,
    },
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if found := when_taken_away(ledger, subject):
        return found
    if is_rate_limited(ledger.evidence, subject):
        return with_more_of_the_resource(ledger, subject)
    if takes_turns(ledger, subject):
        if are_long_at_times(ledger, subject):
            expect_explained(ledger, subject)
        return in_turns(ledger, subject)
    if quiet := first_rival(ledger, subject, SHORT_OF_LANES):
        return quiet
    expect_any_order(ledger, subject)
    # Without this sign, a forecast that does not hold lowers the confidence; it does not take the cause away.
    if are_long_at_times(ledger, subject):
        expect_explained(ledger, subject)
    return _with_more_instances(ledger, subject)


def _with_more_instances(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    queue = ledger.evidence.read(QUEUE_SECONDS, subject)
    work = Reading.of(ledger.need(EXECUTION_SECONDS, subject), Unit.SECONDS, "")
    more = scaling(ledger, subject, (queue + work).value or 0.0)
    if more.forecast is None:
        return Quiet(
            because="on this device more instances would slow each other down as much as they shorten the queue"
        )
    slower = max(more.forecast.compute_seconds - more.now.compute_seconds, 0.0)
    saved = queue - (queue_of(more.forecast) + Reading.of(slower, Unit.SECONDS, ""))
    unsure = may_take_turns(ledger.evidence, subject)
    saved = msgspec.structs.replace(saved, estimated=saved.estimated or unsure)
    if not ledger.worthwhile("predicted_saving", subject, saved + callers_wait(ledger, subject, saved)):
        return Quiet(because="more instances would not shorten requests enough to be worth it")
    if unsure:
        return work_or_turns(ledger, subject, saved.value or 0.0)
    return _finding(ledger, subject, more, more.forecast, saved.value or 0.0)


def _finding(ledger: Ledger, subject: Subject, more: Scaling, forecast: StageForecast, saved: float) -> Fires:
    queue, busy = ledger.need(QUEUE_SECONDS, subject), busy_while_waiting(ledger, subject).value or 0.0
    now, show = more.load.instances, Unit.SECONDS.show
    lanes = "one instance" if now == 1 else f"all {now} instances"
    shared = ""
    if forecast.compute_seconds > 1.1 * more.now.compute_seconds:
        shared = f"; they share the device, so an execution takes {show(forecast.compute_seconds)} then"
    words, change = instances_change(ledger, subject, now, more.count)
    entry = ledger.entry_of(subject)
    caller = f"; {entry.caller}, which calls it, waits as long" if entry and entry.caller else ""
    risk = _risk(ledger, subject)
    unless = "the backend shares a lock or thread pool" if risk else _awaited(ledger, subject)
    return Fires(
        summary=f"{lanes} of {subject.model} busy {Unit.RATIO.show(min(busy, 1.0))} of the time: requests wait "
        f"{show(queue)} for {show(_work(ledger, subject))} of work{caller}",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=saved),),
        saved_seconds=saved,
        suggestion=Suggestion(
            text=f"raise {words}{shared}{risk}",
            change=change,
            prediction=prediction(
                Phase.QUEUE, queue, queue_of(forecast), forecast.assumptions, unless if now == 1 else ""
            ),
        ),
    )


def _work(ledger: Ledger, subject: Subject) -> float:
    """Return how long the execution takes that a request is part of: more of them are in the long, large batches."""
    execution, size = ledger.need(EXECUTION_SECONDS, subject), ledger.evidence.read(BATCH_SIZE, subject).value or 1.0
    of_request = ledger.evidence.read(COMPUTE_SECONDS, subject).value
    return max(of_request, execution) if of_request is not None and size > 1 else execution


def _awaited(ledger: Ledger, subject: Subject) -> str:
    """Return what would keep a second instance from being quicker, where executions use no device and no processor.

    They wait for something then, as a service or a lock, which was as slow before: nothing shows what more callers do
    to it.
    """
    used, on_gpu = ledger.evidence.read(CPU_PER_LANE, subject).value, ledger.evidence.read(ON_GPU, subject).value
    if used is None or used >= HARDLY_WAITS or on_gpu != 0:
        return ""
    return f"all instances wait for one lock or service: an execution uses {Unit.RATIO.show(used)} of a processor"


def _risk(ledger: Ledger, subject: Subject) -> str:
    """Return what may make it useless; a Python model's instances are processes, and share no lock by themselves."""
    config = ledger.evidence.config(subject)
    if config is None or config.backend in ("", names.PYTHON_BACKEND):
        return ""
    return "; if executions take as much longer, a lock or thread pool of the backend is shared: go back, use replicas"


_LINE = {
    QUEUE_SECONDS: 0.17,
    INSTANCE_BUSY_SHARE: 0.94,
    INSTANCES: 1,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    BATCH_SIZE: 1,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 38,
    EXECUTION_SECONDS: 0.0245,
    REQUEST_SECONDS: 0.32,
    DEVICE_HEADROOM: 0.8,
    HOST_CPU_BUSY: 0.2,
}
_TURNS = {
    **_LINE,
    INSTANCES: 3,
    INSTANCE_BUSY_SHARE: 0.78,
    OVERLAP_STRETCH: 1.8,
    ON_GPU: 0,
    HOST_CPU_BUSY: 0.3,
    ARRIVAL_RATE: 36,
    EXECUTION_SECONDS: 0.066,
}
CASES = (
    CheckCase.fires("on one instance that is always busy on an idle device", _LINE),
    CheckCase.quiet("when the device is full", {**_LINE, DEVICE_HEADROOM: 0.03}),
    CheckCase.quiet("when instances idle while requests wait for a window", {**_LINE, INSTANCE_BUSY_SHARE: 0.05}),
    CheckCase.fires(
        "when the rate limiter lets one of four instances execute",
        {
            **_LINE,
            INSTANCES: 4,
            INSTANCE_BUSY_SHARE: 0.21,
            HOST_CPU_BUSY: 0.2,
            RATE_LIMIT: 1,
            RATE_LIMIT_USE: 0.82,
            MOST_AT_ONCE: 1,
        },
    ),
    CheckCase.fires("when CPU instances take turns", _TURNS),
    CheckCase.unknown(
        "without the number of instances", {k: v for k, v in _LINE.items() if k not in (INSTANCE_BUSY_SHARE, INSTANCES)}
    ),
)
