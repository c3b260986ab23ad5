"""A model that calls other models holds its instances while it waits for them.

## Looks for
All instances of a model are busy and its requests wait. Most of its execution time passes in models that it calls, and
those do not queue. Traces show this if the caller passes its trace on. An engine's span ends when it accepts a request;
it works until the caller continues. Without traces, counters show it. Called models run in step with the caller, their
requests end first, and they fill its executions.

## Means
Business logic scripting (BLS) runs one request per instance: the instance does nothing else while a call is pending.
Its busy time is the time of the models it calls, so those idle behind it.

## Rules out
- A model that works itself: its execution contains no calls (`single-instance-serialization`).
- Called models that are the limit: calls wait for their instances (`single-instance-serialization` of the called
  model).
- Models that a client calls in turn: the second one's requests lie outside the first one's executions.
- A full host (`host-cpu-starved`).

## Do
1. Call the models concurrently: use `async_exec` with `asyncio.gather` for independent calls. Decoupled mode can accept
   the next request meanwhile. If call times add up to more than an execution, the calls are already concurrent.
2. Until then, raise the caller's instance count as the patch shows. Then run
   `curl -X POST HOST:8000/v2/repository/models/NAME/load`. Waiting instances cost memory, not time.
3. If the order of calls is fixed, use an ensemble: it holds no instance while a stage works.

## Sources
Python backend, "Business Logic Scripting". server#5725 (214 ms of infer, 0.1 ms of queue in the caller's row),
server#4619. server#4137 (one instance handles one request at a time), tensorrtllm_backend#416.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.gates import (
    BUSY,
    BUSY_LANES,
    CALLED_INSIDE,
    HOST_FULL,
    QUEUE,
    first_rival,
    host_is_full,
    shows_callees,
)
from diagnostics.checks.instances import instances_change, prediction, queue_of
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.inner_calls import NESTED_SHARE, NESTED_WAIT
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.tuning.queueing import StageForecast, predict
from diagnostics.units import Unit

CALLEES_FREE = Limit(
    value=0.25,
    unit=Unit.RATIO,
    because="when a quarter of the calls' time is waiting for the callees' instances, those are short as well",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "queue": QUEUE,
        "busy": BUSY,
        "nested_share": CALLED_INSIDE,
        "nested_wait": CALLEES_FREE,
        "host_cpu_busy": HOST_FULL,
    },
    reach=frozenset({Phase.QUEUE}),
)
_MOST_TIMES = 8
# A callee this busy has a line as soon as more calls come at once (M/D/1: 4.5 executions of wait at 0.9).
_NO_ROOM = 0.9


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := first_rival(ledger, subject, BUSY_LANES):
        return quiet
    if not shows_callees(ledger, subject):
        return Quiet(because="no trace shows calls inside its executions, and no model is called in step with it")
    if not ledger.at_least(NESTED_SHARE, subject, CALLED_INSIDE):
        return Quiet(because="it works itself for most of its time")
    if not ledger.at_most(NESTED_WAIT, subject, CALLEES_FREE):
        return Quiet(because="the models that it calls are short of instances themselves")
    if host_is_full(ledger, subject):
        return Quiet(because="the host's processors are full")
    return _with_more_instances(ledger, subject)


def _with_more_instances(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    queue, (count, forecast) = ledger.evidence.read(QUEUE_SECONDS, subject), _enough(ledger, subject)
    saved = queue - queue_of(forecast)
    if not ledger.worthwhile("predicted_saving", subject, saved):
        return Quiet(because="more instances would not shorten requests enough to be worth it")
    seconds = saved.value or 0.0
    words, change = instances_change(ledger, subject, stage_load(ledger, subject).instances, count)
    return Fires(
        summary=f"{subject.model} holds its instances while it waits for {_callees(ledger, subject)} "
        f"({Unit.RATIO.show(ledger.need(NESTED_SHARE, subject))} of its time): requests wait "
        f"{Unit.SECONDS.show(ledger.need(QUEUE_SECONDS, subject))} for one",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text=f"raise {words}{_busy_callees(ledger, subject)}, until it {_instead(ledger, subject)} or is an "
            "ensemble: that is the fix",
            remedy=Remedy.MITIGATE,
            change=change,
            prediction=prediction(Phase.QUEUE, queue.value or 0.0, queue_of(forecast), forecast.assumptions),
        ),
    )


def _callees(ledger: Ledger, subject: Subject) -> str:
    """Return the names of the models that it calls, where they are known."""
    inner = ledger.evidence.inner_calls(subject.server).get(subject.model or "")
    if inner is None:
        return "models that it calls"
    named = [call.model for call in inner.calls]
    how = ", which it calls at once" if inner.at_once else ", which it calls"
    return " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named) + how


def _instead(ledger: Ledger, subject: Subject) -> str:
    """Return what the caller should do: one that makes its calls at once already still keeps its instance meanwhile."""
    inner = ledger.evidence.inner_calls(subject.server).get(subject.model or "")
    if inner is not None and inner.at_once:
        return "takes further requests while it waits (decoupled mode)"
    return "calls without waiting (async_exec, decoupled mode)"


def _busy_callees(ledger: Ledger, subject: Subject) -> str:
    """Return which callees have no room for more calls at once, and must grow with it."""
    inner = ledger.evidence.inner_calls(subject.server).get(subject.model or "")
    callees = [Subject(server=subject.server, model=call.model) for call in (inner.calls if inner else ())]
    shares = {one.model: ledger.evidence.read(INSTANCE_BUSY_SHARE, one).value or 0.0 for one in callees}
    full = [
        f"{model} (busy {Unit.RATIO.show(min(share, 1.0))})" for model, share in shares.items() if share >= _NO_ROOM
    ]
    return f" and the instances of {', '.join(full)}" if full else ""


def _enough(ledger: Ledger, subject: Subject) -> tuple[int, StageForecast]:
    """Return the smallest count at which a request waits no longer than is worth a change, and what it does then."""
    load = stage_load(ledger, subject)
    for count in range(load.instances + 1, load.instances * _MOST_TIMES + 1):
        forecast = predict(replace(load, instances=count))
        if forecast.stable and (forecast.queue_seconds or 0.0) < QUEUE.value:
            break
    return count, forecast


_WRAPPER = {
    QUEUE_SECONDS: 0.2,
    INSTANCE_BUSY_SHARE: 0.96,
    NESTED_SHARE: 0.9,
    NESTED_WAIT: 0.02,
    INSTANCES: 1,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    CLIENT_BATCH_SIZE: 1,
    ARRIVAL_RATE: 19,
    EXECUTION_SECONDS: 0.05,
    REQUEST_SECONDS: 0.25,
    HOST_CPU_BUSY: 0.3,
}
CASES = (
    CheckCase.fires("when a busy caller waits for the models it calls", _WRAPPER),
    CheckCase.quiet("about a model that does the work itself", {**_WRAPPER, NESTED_SHARE: 0.0}),
    CheckCase.quiet("when the called models are short of instances", {**_WRAPPER, NESTED_WAIT: 0.7}),
    CheckCase.quiet("when the caller is idle", {**_WRAPPER, INSTANCE_BUSY_SHARE: 0.2}),
    CheckCase.quiet("on a host without spare CPU", {**_WRAPPER, HOST_CPU_BUSY: 0.97}),
    CheckCase.unknown(
        "without the number of instances",
        {k: v for k, v in _WRAPPER.items() if k not in (INSTANCE_BUSY_SHARE, INSTANCES)},
    ),
)
