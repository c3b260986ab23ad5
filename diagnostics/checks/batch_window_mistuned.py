"""Requests wait for a batching window to end while the instances idle.

## Looks for
Dynamic batching has `max_queue_delay_microseconds`, and instances are mostly idle. The mean queue time is close to that
window. If batches fill sooner, it is close to their fill time. Windows of several stages of an ensemble count together.

## Means
Nearly every request waits for the window while the batcher gathers others. With free instances, this only adds latency.

## Rules out
- Busy instances: requests wait for an instance, not the window (`single-instance-serialization`,
  `batch-size-collapse`).
- A queue much longer or shorter than batches take to gather: it has another cause.
- An LLM engine's row: the window only delays admission, and its queue is inside the engine.

## Do
1. Set `max_queue_delay_microseconds` as the patch shows. Then run
   `curl -X POST HOST:8000/v2/repository/models/NAME/load`. This reloads the model, with both copies in memory.
2. Measure again (`diag explain HOST:8000`). If throughput matters more than latency, keep a window of a fraction of the
   execution time.

## Sources
Triton user guide, "Batchers", delayed batching. server#3321 (queue 200 ms at every load: the window). With delay 0, a
free instance takes what waits, so batches still form under load (core, dynamic batch scheduler).
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import caller_of, stages_of
from diagnostics.checks.gates import BUSY, QUEUE
from diagnostics.checks.instances import prediction, queue_of
from diagnostics.evidence.capacity import instances_busy, stage_load
from diagnostics.evidence.ledger import WORTHWHILE_TIME, Ledger, Limit
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import StageForecast, predict
from diagnostics.units import Unit

LEAST_OF_WINDOW = Limit(
    value=0.4,
    unit=Unit.RATIO,
    because="the first request of a batch waits the whole time and those that join it half of it on average; a fifth "
    "less where now the window and now a full batch ends it, whichever comes first",
)
MOST_OF_WINDOW = Limit(
    value=1.5,
    unit=Unit.RATIO,
    because="a request can wait until its batch goes and for the end of a running execution, not much more with idle "
    "instances",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "queue": QUEUE,
        "busy": BUSY,
        "queue_in_gathering_low": LEAST_OF_WINDOW,
        "queue_in_gathering_high": MOST_OF_WINDOW,
    },
    symptom="model-queue-dominates",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine batches inside")
    if not ledger.at_least(QUEUE_SECONDS, subject, QUEUE):
        return Quiet(because="requests hardly wait")
    if not (ledger.is_set(DYNAMIC_BATCHING, subject) and ledger.is_set(BATCH_DELAY, subject)):
        return Quiet(because="there is no batching window")
    queue, window = ledger.read(QUEUE_SECONDS, subject), ledger.read(BATCH_DELAY, subject)
    gathering = _gathering(ledger, subject, window)
    if gathering.value == 0:
        return Quiet(because="each request fills a batch alone")
    shares = queue / gathering
    if not ledger.compare("queue_in_gathering", shares, LEAST_OF_WINDOW):
        return Quiet(because="the queue is far shorter than batches take to gather")
    if not ledger.compare("queue_in_gathering", shares, MOST_OF_WINDOW, at_least=False):
        return Quiet(because="the queue is longer than the gathering of batches can make it")
    if instances_busy(ledger.as_rival(), subject, BUSY):
        return Quiet(because="instances are busy: the queue is a line, not a window")
    return _without_window(ledger, subject)


def _gathering(ledger: Ledger, subject: Subject, window: Reading) -> Reading:
    """Return how long a batch is gathered at most: the window, or until one fills at the rate at which requests come.

    A batch goes as soon as it is as large as the smallest preferred size, `max_batch_size` where none is set (core,
    `DynamicBatchScheduler::GetDynamicBatch`); its first request waits for the others.
    """
    config, most = ledger.evidence.config(subject), ledger.evidence.read(MAX_BATCH_SIZE, subject).value
    batching = config.dynamic_batching if config else None
    fires = min(batching.preferred_batch_sizes if batching else (), default=most)
    items, rate = (
        ledger.evidence.read(CLIENT_BATCH_SIZE, subject).value,
        ledger.evidence.read(ARRIVAL_RATE, subject).value,
    )
    if not fires or not items or not rate or window.value is None:
        return window
    fills = max(fires / items - 1.0, 0.0) / rate
    return window if fills >= window.value else Reading.of(fills, Unit.SECONDS, window.source)


def _saved(ledger: Ledger, subject: Subject) -> tuple[StageForecast, Reading]:
    """Return the forecast of a stage without its window, and what that saves; unknown where it could not keep up.

    Raises:
        Undecided: the stage's load could not be read.

    """
    forecast = predict(replace(stage_load(ledger, subject), delay_seconds=0.0))
    if forecast.queue_seconds is None:
        return forecast, Reading.unknown(Missing.CONFLICTING, Unit.SECONDS)
    return forecast, ledger.evidence.read(QUEUE_SECONDS, subject) - queue_of(forecast)


def _of_all_windows(ledger: Ledger, subject: Subject, own: Reading) -> Reading:
    """Return what requests of the subject's entry are saved without the windows of all its stages with time left.

    A window of some hundredths of a second is a small part of a request; several add up.
    """
    whole = own
    for stage in stages_of(ledger, caller_of(ledger, subject)):
        read = ledger.evidence.read
        window, busy = read(BATCH_DELAY, stage).value, read(INSTANCE_BUSY_SHARE, stage).value
        queue = read(QUEUE_SECONDS, stage).value
        if stage.model == subject.model or not window or queue is None or busy is None or busy > BUSY.value:
            continue
        if LEAST_OF_WINDOW.value <= queue / window <= MOST_OF_WINDOW.value:
            _, saved = _saved(ledger, stage)
            whole = whole if saved.value is None else whole + saved
    return whole


def _without_window(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    forecast, saved = _saved(ledger, subject)
    if saved.value is None:
        return Quiet(because="without the window the stage could not keep up")
    either = ledger.as_alternative()
    alone = either.worthwhile("predicted_saving", subject, saved)
    if not alone and (
        saved.value < WORTHWHILE_TIME.value
        or not either.worthwhile("all_windows_saving", subject, _of_all_windows(ledger, subject, saved))
    ):
        return Quiet(because="a shorter window would not shorten requests enough to be worth it")
    window, queue = ledger.need(BATCH_DELAY, subject), ledger.need(QUEUE_SECONDS, subject)
    return Fires(
        summary=f"{subject.model} holds requests {Unit.SECONDS.show(queue)} for a batching window of "
        f"{Unit.SECONDS.show(window)} while its instances are busy "
        f"{Unit.RATIO.show(ledger.need(INSTANCE_BUSY_SHARE, subject))} of the time",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=saved.value or 0.0),),
        saved_seconds=saved.value or 0.0,
        suggestion=_suggestion(subject, queue, forecast),
    )


def _suggestion(subject: Subject, queue: float, forecast: StageForecast) -> Suggestion:
    path = "dynamic_batching.max_queue_delay_microseconds"
    return Suggestion(
        text=f"set the batching window of {subject.model} to 0: requests that wait for a free instance still share a "
        "batch",
        change=ConfigChange(model=subject.model or "", settings=(Setting(path=path, value=0),)),
        prediction=prediction(Phase.QUEUE, queue, queue_of(forecast), forecast.assumptions),
    )


_HELD = {
    QUEUE_SECONDS: 0.048,
    INSTANCE_BUSY_SHARE: 0.013,
    INSTANCES: 2,
    MAX_BATCH_SIZE: 64,
    DYNAMIC_BATCHING: 1,
    BATCH_DELAY: 0.06,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 12,
    EXECUTION_SECONDS: 0.004,
    REQUEST_SECONDS: 0.166,
}
CASES = (
    CheckCase.fires("when idle instances let requests wait for the window", _HELD),
    CheckCase.quiet("when instances are busy", {**_HELD, INSTANCE_BUSY_SHARE: 0.95}),
    CheckCase.quiet("when the queue is far longer than the window", {**_HELD, BATCH_DELAY: 0.002}),
    CheckCase.quiet("when the window is a small part of the request", {**_HELD, REQUEST_SECONDS: 2.0}),
    CheckCase.unknown(
        "without the configuration", {k: v for k, v in _HELD.items() if k not in (DYNAMIC_BATCHING, BATCH_DELAY)}
    ),
)
