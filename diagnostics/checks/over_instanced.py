"""More instances of a model share a GPU than it can serve at once.

## Looks for
A GPU is full and runs several busy instances of the model. By the model of a shared device, half as many instances or
fewer would serve about as much. In that model, executions slow in proportion to how many share the device.

## Means
Each instance beyond what fills the card only lengthens the executions of the others. The queue moves from Triton, which
shows and batches it, into the card, which does not. It costs memory, and context switches that can lower throughput.

## Rules out
- A card with room: if instances overlap, there may be too few. If not, they share a lock
  (`single-instance-serialization`).
- Full CPUs: executions wait for a core, not for the card (`host-cpu-starved`).
- Too much work for the card at any count (`gpu-saturated`): this can hold as well, and then causes the latency.
- An engine: it batches inside, and a second instance takes memory from its cache.

## Do
1. Lower `instance_group.count` as the patch shows. Then run `curl -X POST HOST:8000/v2/repository/models/NAME/load`.
   Two instances overlap copies with execution, and more add little.
2. Batch requests instead (`dynamic_batching`), if a batch costs less than its items one by one.
3. Compare before and after (`diag diff BEFORE AFTER` of two recordings): throughput should not fall.

## Sources
Public course lab: 4+4 instances had queue 0.5 ms, executions twice as long and 38 % less throughput than 2+2.
server#7075, server#3066, fastertransformer_backend#72. Measured on an H200 with twelve instances: executions took 134
ms, of which the card needs 11 ms. Schweitzer's approximation of mean value analysis.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.checks.gates import BUSY, device_is_full, is_idle
from diagnostics.checks.instances import instances_change, prediction, queue_of
from diagnostics.evidence.capacity import DEVICE_FULL, stage_load
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import DEVICE_HEADROOM, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.queueing import StageForecast, StageLoad, headroom_limited, predict
from diagnostics.units import Unit

SEVERAL = Limit(
    value=4,
    unit=Unit.COUNT,
    because="two instances overlap copies with execution, as Triton's guide recommends; of four and more, half may be "
    "too many",
)
BUSY_AT_ONCE = Limit(
    value=SEVERAL.value * BUSY.value,
    unit=Unit.COUNT,
    because="so many requests execute on average where four instances are busy",
)
HALF = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="the device model is good to about a fifth: only a count of half and less is surely enough",
)
# Throughput that a smaller count may lose and still count as about the same: the device model is no better than that.
_AS_MUCH = 0.9
_FEWEST = 2
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "requests_executing": BUSY_AT_ONCE,
        "instances": SEVERAL,
        "busy": BUSY,
        "device_headroom": DEVICE_FULL,
        "enough_instances_share": HALF,
    },
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if is_idle(ledger, subject):
        return Quiet(because="the model is idle")
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine batches inside, so its instances are no measure")
    if _few_at_once(ledger, subject):
        return Quiet(because="too few requests execute at once to crowd a card")
    if not ledger.at_least(INSTANCES, subject, SEVERAL):
        return Quiet(because="there are few instances")
    if not ledger.is_set(ON_GPU, subject):
        return Quiet(because="the model does not run on a GPU")
    if not ledger.at_least(INSTANCE_BUSY_SHARE, subject, BUSY):
        return Quiet(because="instances are idle: they do not crowd the card")
    if not device_is_full(ledger.as_rival(), subject):
        return Quiet(because="the GPU has room for them")
    return _with_fewer(ledger, subject)


def _few_at_once(ledger: Ledger, subject: Subject) -> bool:
    """Return whether fewer requests execute on average than so many busy instances do; not known counts as no.

    Little's law: what is not in the queue. Requests of one batch count apart, so this is an upper end.
    """
    beyond_queue = ledger.evidence.read(REQUEST_SECONDS, subject) - ledger.evidence.read(QUEUE_SECONDS, subject)
    at_once = ledger.evidence.read(ARRIVAL_RATE, subject) * beyond_queue
    if at_once.value is None:
        return False
    return not ledger.compare("requests_executing", at_once.with_unit(Unit.COUNT), BUSY_AT_ONCE)


def _with_fewer(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    load, headroom = stage_load(ledger, subject), ledger.evidence.read(DEVICE_HEADROOM, subject)
    room = (headroom.low or 0.0, headroom.high or 0.0)
    count, forecast = _enough(headroom_limited(load, room))
    share = Reading.of(count / load.instances, Unit.RATIO, headroom.source)
    if not ledger.compare("enough_instances_share", share, HALF, at_least=False):
        return Quiet(because="fewer instances would serve less")
    now, show = ledger.need(EXECUTION_SECONDS, subject), Unit.SECONDS.show
    saved = _saved(ledger, subject, forecast, max(now - forecast.compute_seconds, 0.0))
    return Fires(
        summary=f"{load.instances} instances of {subject.model} share a full GPU: an execution takes {show(now)}, with "
        f"{count} instances about {show(forecast.compute_seconds)} at about the same throughput"
        f"{'' if saved else ', while requests wait in the queue instead'}",
        claims=(Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=saved),),
        saved_seconds=saved,
        severity=None if saved else Severity.INFO,
        suggestion=_suggestion(ledger, subject, load, count, forecast),
    )


def _enough(load: StageLoad) -> tuple[int, StageForecast]:
    """Return the smallest number of instances that serves as much as all of them do, two at least."""
    most = min(predict(load).capacity_per_second, load.arrival_rate)
    for count in range(_FEWEST, load.instances):
        forecast = predict(replace(load, instances=count))
        if forecast.capacity_per_second >= _AS_MUCH * most:
            return count, forecast
    return load.instances, predict(load)


def _saved(ledger: Ledger, subject: Subject, forecast: StageForecast, shorter: float) -> float:
    """Return what a request gains: what executions get shorter by, less what the queue in Triton grows by.

    Nothing where the smaller count only just keeps up: then the wait moves out of the card and stays as long.
    """
    queue = queue_of(forecast)
    if queue.value is None or queue.high is None:
        return 0.0
    longer = queue.value - (ledger.evidence.read(QUEUE_SECONDS, subject).value or 0.0)
    gain = max(shorter - max(longer, 0.0), 0.0)
    return gain if ledger.worthwhile("predicted_saving", subject, Reading.of(gain, Unit.SECONDS, queue.source)) else 0.0


def _suggestion(ledger: Ledger, subject: Subject, load: StageLoad, count: int, forecast: StageForecast) -> Suggestion:
    words, change = instances_change(ledger, subject, load.instances, count)
    queue = queue_of(forecast)
    return Suggestion(
        text=f"lower {words} and compare throughput; batch instead where a batch is cheaper than its items",
        change=change,
        prediction=prediction(Phase.QUEUE, ledger.need(QUEUE_SECONDS, subject), queue, forecast.assumptions)
        if queue.value is not None
        else None,
    )


_CROWDED = {
    QUEUE_SECONDS: 0.133,
    INSTANCE_BUSY_SHARE: 0.999,
    INSTANCES: 12,
    ON_GPU: 1,
    DEVICE_HEADROOM: 0.002,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 90,
    EXECUTION_SECONDS: 0.133,
    REQUEST_SECONDS: 0.267,
}
CASES = (
    CheckCase.fires("when twelve instances share a full card", _CROWDED),
    CheckCase.quiet("when the card has room", {**_CROWDED, DEVICE_HEADROOM: 0.5}),
    CheckCase.quiet("at two instances", {**_CROWDED, INSTANCES: 2}),
    CheckCase.quiet("when instances idle", {**_CROWDED, INSTANCE_BUSY_SHARE: 0.2}),
    CheckCase.unknown("when the GPU was not measured", {k: v for k, v in _CROWDED.items() if k is not DEVICE_HEADROOM}),
)
