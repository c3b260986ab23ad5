"""The GPU under a stage is full: requests wait, and more instances cannot help.

## Looks for
Requests wait while a model's instances on a GPU are busy, and under 10 % of the GPU is left. What counts are the
processors (SM), the tensor cores, the memory bandwidth (DRAM) and the power cap.

## Means
The card works at its limit. More instances share it, and each execution takes longer: the queue moves into the card.

## Rules out
- A GPU that is only in use: `utilization.gpu` counts time with any kernel running, and shows 95 % with a third of the
  SMs busy. Alone it is not used here.
- Too few instances on a card with room (`single-instance-serialization`).

## Do
1. Add a GPU for this model (another replica, or a second card in `instance_group.gpus`).
2. Make each request cheaper: a smaller or quantised model, shorter inputs, larger batches if there is room.
3. Move other models off this card if they use much of it. At the power cap, clocks stay below their maximum.

## Sources
NVIDIA DCGM, "Profiling metrics" (SM active of 0.8 and more). Measured on an H200: 100 % utilization at 82 % SM and 679
of 700 W, with 8 s of queue. In contrast, 95 % utilization at 35 % SM, where a second instance helped.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.entries import name_of
from diagnostics.checks.gates import BUSY, QUEUE, device_is_full, is_idle
from diagnostics.checks.instances import prediction, queue_of
from diagnostics.evidence.capacity import DEVICE_FULL, stage_load
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import DEVICE_HEADROOM, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.gpu import GPU_TIME_USED
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.queueing import StageForecast, StageLoad, predict
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.MODEL,
    limits={"queue": QUEUE, "busy": BUSY, "device_headroom": DEVICE_FULL},
    symptom="gpu-at-power-limit",
    reach=frozenset({Phase.QUEUE}),
)
_MOST_GPUS = 16
# Share of the time. The driver's own work on a card that nobody uses stays below it.
_IDLE_CARD = 0.05
_MOST_NAMED = 7


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if is_idle(ledger, subject):
        return Quiet(because="the model is idle")
    if not ledger.at_least(QUEUE_SECONDS, subject, QUEUE):
        return Quiet(because="requests hardly wait for an instance")
    if not ledger.is_set(ON_GPU, subject):
        return Quiet(because="the model does not run on a GPU")
    if not ledger.at_least(INSTANCE_BUSY_SHARE, subject, BUSY):
        return Quiet(because="instances are idle while requests wait")
    if not device_is_full(ledger.as_rival(), subject):
        return Quiet(because="the GPU has room")
    return _with_more_gpus(ledger, subject)


def _with_more_gpus(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    load = stage_load(ledger, subject)
    gpus, forecast = _enough_gpus(load)
    queue = ledger.evidence.read(QUEUE_SECONDS, subject)
    expected = queue_of(forecast)
    saved = queue if expected.value is None else queue - expected
    if not ledger.worthwhile("predicted_saving", subject, saved):
        return Quiet(because="another GPU would not shorten requests enough to be worth it")
    seconds = saved.value or 0.0
    return Fires(
        summary=f"the GPU under {subject.model} is full: requests wait {Unit.SECONDS.show(queue.value)} and more "
        "instances would only share it",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text=f"serve {subject.model} from {gpus} GPUs of this kind{_idle_cards(ledger, subject)}, or make its "
            "requests cheaper",
            remedy=Remedy.FIX if forecast.stable else Remedy.MITIGATE,
            load=1 / gpus,
            prediction=prediction(Phase.QUEUE, queue.value or 0.0, expected, forecast.assumptions)
            if forecast.stable
            else None,
        ),
    )


def _idle_cards(ledger: Ledger, subject: Subject) -> str:
    """Return which of the server's other cards idle, in words; empty where none does or they were not measured."""
    cards = [card for card in ledger.evidence.subjects(Scope.GPU) if card.server == subject.server]
    used = {card: ledger.evidence.read(GPU_TIME_USED, card).value for card in cards}
    idle = [name_of(card) for card, share in used.items() if share is not None and share <= _IDLE_CARD]
    if not idle:
        return ""
    verb = "idles" if len(idle) == 1 else "idle"
    return f" ({', '.join(idle[:_MOST_NAMED])}{', …' * (len(idle) > _MOST_NAMED)} {verb}: add to instance_group.gpus)"


def _enough_gpus(load: StageLoad) -> tuple[int, StageForecast]:
    """Return the smallest number of equal cards that keeps up with a short queue, and its forecast per card."""
    forecast = predict(load)
    for gpus in range(2, _MOST_GPUS + 1):
        forecast = predict(replace(load, arrival_rate=load.arrival_rate / gpus))
        if forecast.queue_seconds is not None and forecast.queue_seconds <= load.service.time(load.items):
            return gpus, forecast
    return _MOST_GPUS, forecast


_FULL = {
    QUEUE_SECONDS: 8.7,
    INSTANCE_BUSY_SHARE: 0.97,
    DEVICE_HEADROOM: 0.03,
    ON_GPU: 1,
    INSTANCES: 2,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 35,
    EXECUTION_SECONDS: 0.0837,
    REQUEST_SECONDS: 8.9,
}
CASES = (
    CheckCase.fires("when busy instances wait for a full card", _FULL),
    CheckCase.quiet("when the card has room", {**_FULL, DEVICE_HEADROOM: 0.6}),
    CheckCase.quiet("on a CPU", {**_FULL, ON_GPU: 0}),
    CheckCase.quiet("when nothing waits", {**_FULL, QUEUE_SECONDS: 0.001}),
    CheckCase.unknown("when the GPU was not measured", {k: v for k, v in _FULL.items() if k is not DEVICE_HEADROOM}),
)
