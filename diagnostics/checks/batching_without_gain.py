"""Batches form, but cost as much as their requests one by one.

## Looks for
Dynamic batching forms batches, and requests spend long in shared executions. Each further item adds nearly as much time
as a batch of one takes.

## Means
The device is already full with one item, or the model loops over its batch. Batching then only makes each request wait
for its neighbours' work. A longer window or a larger batch makes it worse.

## Rules out
- A flat or falling cost per item: batching pays off there.
- Batches that clients send: the server cannot split them.
- Requests that would otherwise wait as long for an instance: instances are missing (`single-instance-serialization`).

## Do
1. Turn batching off for this model, or lower `max_batch_size`, as the patch shows. Then run
   `curl -X POST HOST:8000/v2/repository/models/NAME/load`.
2. If the model loops over its batch, vectorise it. Then turn batching on again.

## Sources
server#4483, server#6894 (latency linear in batch). A public course lab: a batch of 7 took 79 ms, one 29 ms.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.instances import MODEL, prediction, queue_of
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.executions import BATCH_MARGINAL_COST, EXECUTION_SECONDS
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
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.tuning.queueing import predict
from diagnostics.units import Unit

LINEAR_COST = Limit(
    value=0.8,
    unit=Unit.RATIO,
    because="an item that costs 80 % of a batch of one leaves at most 20 % more throughput at any batch size",
)
BATCHES_FORM = Limit(
    value=1.5,
    unit=Unit.COUNT,
    because="below 1.5 items per execution most requests run alone and do not wait",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"batch_marginal_cost": LINEAR_COST, "batch_size": BATCHES_FORM},
    symptom="model-queue-dominates",
    reach=frozenset({Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine batches inside")
    if not ledger.at_least(BATCH_SIZE, subject, BATCHES_FORM):
        return Quiet(because="batches hardly form")
    if not ledger.is_set(DYNAMIC_BATCHING, subject):
        return Quiet(because="batches are the clients' own")
    if not ledger.worthwhile("batched_seconds", subject, _batched_seconds(ledger, subject)):
        return Quiet(because="even batches that cost their sum would add little")
    if not ledger.at_least(BATCH_MARGINAL_COST, subject, LINEAR_COST):
        return Quiet(because="a larger batch is cheaper per item")
    return _without_batching(ledger, subject)


def _batched_seconds(ledger: Ledger, subject: Subject) -> Reading:
    """Return what other requests in its batch can add to a request's execution at most: all but its own items' part."""
    compute, batch = ledger.evidence.read(COMPUTE_SECONDS, subject), ledger.need(BATCH_SIZE, subject)
    own = ledger.evidence.read(CLIENT_BATCH_SIZE, subject).value or 1.0
    return compute * Reading.of(max(1.0 - own / max(batch, 1.0), 0.0), Unit.RATIO, compute.source)


def _without_batching(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    load = stage_load(ledger, subject)
    forecast = predict(replace(load, batching=False))
    if forecast.queue_seconds is None:
        return Quiet(because="one at a time the stage could not keep up: it needs instances first")
    alone = Reading.of(load.service.time(load.items), Unit.SECONDS, MODEL)
    now = ledger.evidence.read(QUEUE_SECONDS, subject) + ledger.read(COMPUTE_SECONDS, subject)
    saved = now - (queue_of(forecast) + alone)
    if not ledger.worthwhile("predicted_saving", subject, saved):
        return Quiet(because="one at a time requests would wait about as long for an instance")
    compute = ledger.need(COMPUTE_SECONDS, subject)
    excess = min(max(compute - load.service.time(load.items), 0.0), saved.value or 0.0)
    return Fires(
        summary=f"{subject.model} batches {Unit.COUNT.show(ledger.need(BATCH_SIZE, subject))} requests at a time, "
        "and each costs "
        f"{Unit.RATIO.show(ledger.need(BATCH_MARGINAL_COST, subject))} of a request alone: requests execute "
        f"{Unit.SECONDS.show(compute)} for {Unit.SECONDS.show(load.service.time(load.items))} of own work",
        claims=(Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=excess),),
        saved_seconds=saved.value or 0.0,
        suggestion=Suggestion(
            text=f"turn dynamic batching off for {subject.model}",
            change=ConfigChange(model=subject.model or "", settings=(Setting(path="dynamic_batching", value=None),)),
            prediction=prediction(Phase.COMPUTE, now.value or 0.0, queue_of(forecast) + alone, forecast.assumptions),
        ),
    )


_LINEAR = {
    BATCH_SIZE: 4,
    DYNAMIC_BATCHING: 1,
    BATCH_MARGINAL_COST: 0.97,
    EXECUTION_SECONDS: 0.0098,
    COMPUTE_SECONDS: 0.06,
    QUEUE_SECONDS: 0.03,
    ARRIVAL_RATE: 60,
    CLIENT_BATCH_SIZE: 1,
    INSTANCES: 1,
    MAX_BATCH_SIZE: 16,
    BATCH_DELAY: 0.05,
    REQUEST_SECONDS: 0.1,
}
CASES = (
    CheckCase.fires("when a window gathers batches that cost their sum", _LINEAR),
    CheckCase.quiet("when a larger batch is cheaper per item", {**_LINEAR, BATCH_MARGINAL_COST: 0.1}),
    CheckCase.quiet("when single requests would wait as long for the instance", {**_LINEAR, ARRIVAL_RATE: 98}),
    CheckCase.quiet("when batches do not form", {**_LINEAR, BATCH_SIZE: 1.05}),
    CheckCase.unknown(
        "without the time per batch size", {k: v for k, v in _LINEAR.items() if k is not BATCH_MARGINAL_COST}
    ),
)
