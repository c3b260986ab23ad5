"""Requests that could run together run one at a time while others wait.

## Looks for
A model that may batch (`max_batch_size` above 1) has busy instances and waiting requests. Its executions take far fewer
requests than wait or fit.

## Means
Each execution pays its fixed cost for a single request. Batching is off, or the batcher cannot join requests. Shapes
differ, optional inputs differ, or so many instances run that each takes one request.

## Rules out
- Batch 1 at low concurrency: nothing waits, so there is nothing to join.
- Batches whose cost grows with every item: batching would not help (`batching-without-gain`).
- A model that waits for models it calls (`bls-serialization`): it would call them for each request in turn. If models
  run in step with it and nothing is traced, this stays unknown.
- A sequence batcher: it joins only requests of different sequences, and excludes `dynamic_batching`.
- A next stage that completes less than this one passes on: requests would wait there instead.
- An LLM engine's row: batch 1 is normal, because the engine batches inside.

## Do
1. Without a `dynamic_batching` block: add it as the patch shows. Then run
   `curl -X POST HOST:8000/v2/repository/models/NAME/load`. This reloads the model, with both copies in memory.
2. With the block: compare the shapes of requests. Pad them or set `allow_ragged_batch`, and send the same optional
   inputs.
3. Measure again (`diag explain HOST:8000`): the mean batch size rises, the queue falls.

## Sources
Triton user guide, "Batchers". server#7205, server#5721, server#2399 (instances suppress batching). Little's law.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.gates import (
    BATCH_FILLED,
    BATCHABLE,
    BUSY,
    COST_PAYS,
    QUEUE,
    WAITS_BEHIND,
    batching_is_left_unused,
    callees_are_distinguished,
    waits_for_callees,
    would_wait_behind,
)
from diagnostics.checks.instances import MODEL, prediction, queue_of
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.executions import BATCH_MARGINAL_COST, EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, BATCH_SIZE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import StageForecast, StageLoad, predict
from diagnostics.units import Unit

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "queue": QUEUE,
        "busy": BUSY,
        "batch_fill": BATCH_FILLED,
        "batch_marginal_cost": COST_PAYS,
        "max_batch_size": BATCHABLE,
    },
    symptom="model-batches-stay-small",
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine batches inside; batch size 1 is normal")
    if not ledger.at_least(QUEUE_SECONDS, subject, QUEUE):
        return Quiet(because="requests hardly wait, so none could have been joined")
    if not ledger.at_least(MAX_BATCH_SIZE, subject, BATCHABLE):
        return Quiet(because="the model takes one request per execution by configuration")
    if not ledger.at_least(INSTANCE_BUSY_SHARE, subject, BUSY):
        return Quiet(because="instances are idle while requests wait")
    if waits_for_callees(ledger, subject):
        return Quiet(because="it waits for models that it calls, one request after another in any batch")
    callees_are_distinguished(ledger, subject)
    if would_wait_behind(ledger, subject):
        return Quiet(because=WAITS_BEHIND)
    if not batching_is_left_unused(ledger, subject):
        return Quiet(because="batches are as large as the queue allows, or larger ones would not pay")
    return _with_batching(ledger, subject)


def _with_batching(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    load = stage_load(ledger, subject)
    forecast = predict(replace(load, batching=True))
    if forecast.queue_seconds is None:
        return _in_overload(ledger, subject, load, forecast)
    saved = ledger.evidence.read(QUEUE_SECONDS, subject) - queue_of(forecast)
    if not ledger.worthwhile("predicted_saving", subject, saved):
        return Quiet(because="batches would not shorten requests enough to be worth it")
    return _fires(ledger, subject, saved, _suggestion(ledger, subject, load.batching, forecast))


def _in_overload(ledger: Ledger, subject: Subject, load: StageLoad, forecast: StageForecast) -> Fires | Quiet:
    """Decide where batches would serve more, and yet not all that is offered.

    What waits grows by offered − served a second and is worked off at what is served: of the same age of the overload,
    the wait is as (offered − served) ÷ served (fluid limit of a queue; Newell, Applications of Queueing Theory, 1982).
    """
    offered, now, then = load.arrival_rate, predict(load).capacity_per_second, forecast.capacity_per_second
    if not now < then <= offered:
        return Quiet(because="batches would not let the stage keep up either")
    queue = ledger.evidence.read(QUEUE_SECONDS, subject)
    left = (offered - then) / then / ((offered - now) / now)
    saved = queue * Reading.of(1.0 - left, Unit.RATIO, MODEL)
    if not ledger.worthwhile("predicted_saving", subject, saved):
        return Quiet(because="batches would hardly serve more")
    rates = [Unit.PER_SECOND.show(items / load.items) for items in (now, then, offered)]
    suggestion = _suggestion(ledger, subject, load.batching, None)
    text = (
        f"{suggestion.text}: it serves at most {rates[0]} now, {rates[1]} or so with batches, and {rates[2]} arrive; "
        "where it still falls behind, add instances or replicas"
    )
    return _fires(ledger, subject, saved, replace(suggestion, text=text))


def _fires(ledger: Ledger, subject: Subject, saved: Reading, suggestion: Suggestion) -> Fires:
    seconds = saved.value or 0.0
    return Fires(
        summary=_summary(ledger, subject),
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=suggestion,
    )


def _summary(ledger: Ledger, subject: Subject) -> str:
    batch = ledger.evidence.read(BATCH_SIZE, subject).value
    waiting: Reading = ledger.evidence.read(ARRIVAL_RATE, subject) * ledger.evidence.read(QUEUE_SECONDS, subject)
    return (
        f"{subject.model} executes {Unit.COUNT.show(batch)} request at a time while {Unit.COUNT.show(waiting.value)} "
        f"wait and up to {ledger.need(MAX_BATCH_SIZE, subject):.0f} fit: requests wait "
        f"{Unit.SECONDS.show(ledger.need(QUEUE_SECONDS, subject))}"
    )


def _suggestion(ledger: Ledger, subject: Subject, batching: bool, forecast: StageForecast | None) -> Suggestion:
    now = ledger.need(QUEUE_SECONDS, subject)
    expected = prediction(Phase.QUEUE, now, queue_of(forecast), forecast.assumptions) if forecast else None
    if batching:
        return Suggestion(
            text="dynamic batching is on and joins nothing: make requests equal in shape and in optional inputs, or "
            "allow ragged batches",
            prediction=expected,
        )
    return Suggestion(
        text=f"turn on dynamic batching for {subject.model}",
        change=ConfigChange(model=subject.model or "", settings=(Setting(path="dynamic_batching", value=True),)),
        prediction=expected,
    )


_LONE = {
    QUEUE_SECONDS: 0.025,
    INSTANCE_BUSY_SHARE: 0.91,
    INSTANCES: 1,
    MAX_BATCH_SIZE: 32,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    BATCH_SIZE: 1,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 205,
    EXECUTION_SECONDS: 0.0044,
    REQUEST_SECONDS: 0.029,
}
CASES = (
    CheckCase.fires("when five wait and each execution takes one", _LONE),
    CheckCase.quiet("when the model cannot batch", {**_LONE, MAX_BATCH_SIZE: 1}),
    CheckCase.quiet("when an item in a batch costs as much as alone", {**_LONE, BATCH_MARGINAL_COST: 0.98}),
    CheckCase.quiet("when batches are as large as what waits", {**_LONE, BATCH_SIZE: 5, DYNAMIC_BATCHING: 1}),
    CheckCase.fires(
        "in an overload that batches reduce but do not end",
        {**_LONE, QUEUE_SECONDS: 3.0, REQUEST_SECONDS: 3.1, ARRIVAL_RATE: 900, MAX_BATCH_SIZE: 8},
    ),
    CheckCase.unknown("without the configuration", {k: v for k, v in _LONE.items() if k is not MAX_BATCH_SIZE}),
)
