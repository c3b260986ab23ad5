"""Symptoms that models show in Triton's own metrics."""

from __future__ import annotations

from diagnostics import names
from diagnostics.checks.check import Severity
from diagnostics.gen.alert import label, series
from diagnostics.gen.example_series import SAFETY, Example, ExampleSeries, model_load
from diagnostics.gen.model_recordings import (
    BATCH_SIZE,
    EXECUTIONS,
    FAILURE_RATIO,
    FAILURES,
    QUEUE_MEAN,
    QUEUE_SHARE,
    REQUESTS,
)
from diagnostics.gen.recording import RANGE, RANGE_SECONDS
from diagnostics.gen.symptom import Runbook, SymptomAlert, all_of, symptom

# Below, a change would gain too little to act on, as for the checks.
_LEAST_WAIT_SECONDS = 0.005
_LARGE_SHARE = 0.4
_ENOUGH_REQUESTS = 10
_FAILED_SHARE = 0.01
_ENOUGH_FAILURES = 5
_SMALL_BATCH = 1.5
_GROWTH = 10

_WHERE = f"{label('model')} on {label('instance')}"
_ENOUGH = f"{REQUESTS} * {RANGE_SECONDS} >= {_ENOUGH_REQUESTS}"
_WAITING = all_of(f"{QUEUE_MEAN} > {_LEAST_WAIT_SECONDS}", f"{QUEUE_SHARE} > {_LARGE_SHARE}", _ENOUGH)
_PENDING = names.PENDING_REQUESTS
_PENDING_SERIES = series(_PENDING, SAFETY)

QUEUE_DOMINATES = symptom(
    "model-queue-dominates",
    expr=_WAITING,
    hold=10,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: requests spend much of their time in the queue",
    runbook=Runbook(
        meaning="For ten minutes, at least two fifths of the model's own time, and 5 ms of each request, were spent "
        "waiting for an instance. What makes them wait cannot be told from this.",
        impact="Users wait as long as the queue is, at each stage of an ensemble that has one.",
        diagnosis=("Is it one replica? Then compare it with the others before you change the model.",),
        mitigation=(
            "Send less traffic here, or add a replica, until the cause is known.",
            "Do not add instances by the queue alone: on a full GPU they make it worse.",
        ),
    ),
    example=Example(
        labels=SAFETY,
        bad=model_load(queue_ms=60),
        good=model_load(queue_ms=4, compute_ms=5),
        few=model_load(requests=1, queue_ms=60),
        restarts=True,
    ),
)
QUEUE_GROWS = symptom(
    "model-queue-grows",
    expr=f"sum without ({names.GPU_UUID}) (min_over_time({_PENDING}[{RANGE}])) "
    f"> {_GROWTH} + sum without ({names.GPU_UUID}) (max_over_time({_PENDING}[{RANGE}] offset 10m))",
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: more arrives than is served",
    runbook=Runbook(
        meaning="At every look of the last five minutes more requests waited than at any look ten minutes before. A "
        "queue that grows like this does not empty by itself.",
        impact="Each request waits longer than the one before; in the end clients time out, or the queue refuses.",
        diagnosis=(
            "Compare the request rate with that of the same hour before: has traffic grown, or service slowed?",
        ),
        mitigation=("Shed load in front of Triton, or add replicas.",),
    ),
    example=Example(
        labels=SAFETY,
        bad={**model_load(), _PENDING_SERIES: ExampleSeries(value=10, counter=True)},
        good=model_load(pending=100),
        first=10,
    ),
)
BATCHES_STAY_SMALL = symptom(
    "model-batches-stay-small",
    expr=all_of(f"{BATCH_SIZE} < {_SMALL_BATCH}", _WAITING),
    hold=10,
    severity=Severity.INFO,
    summary=f"{_WHERE}: requests wait, and run one at a time",
    runbook=Runbook(
        meaning="Requests wait in the queue while executions hold hardly more than one each. A model that cannot "
        "batch looks the same.",
        impact="An execution costs the same for one request as for several, so throughput is given away.",
        diagnosis=("Read `max_batch_size` and `dynamic_batching` of the model: can it batch at all?",),
        mitigation=("None by itself; the wait has an alert of its own.",),
    ),
    example=Example(
        labels=SAFETY,
        bad=model_load(queue_ms=60),
        good=model_load(queue_ms=60, batch=4),
        few=model_load(requests=1, queue_ms=60),
        restarts=True,
    ),
)
REQUESTS_FAIL = symptom(
    "requests-fail",
    expr=all_of(f"{FAILURE_RATIO} > {_FAILED_SHARE}", f"{FAILURES} * {RANGE_SECONDS} >= {_ENOUGH_FAILURES}"),
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: requests fail",
    runbook=Runbook(
        meaning="More than one request in a hundred failed for five minutes, without those that clients gave up. "
        "Failures of an ensemble, most of which Triton counts twice, may be errors of a member or a full queue.",
        impact="Clients get errors, or retry and add load.",
        diagnosis=(
            f"Compare the label `reason` of `{names.REQUEST_FAILURE}`: BACKEND is the model's code, REJECTED a queue's "
            "timeout, OTHER of an ensemble while no member fails a full queue.",
        ),
        mitigation=(
            "Roll back what was deployed last to this model.",
            "Take a replica that alone fails out of service.",
        ),
    ),
    example=Example(
        labels=SAFETY,
        bad=model_load(failed=60),
        good=model_load(failed=3),
        few=model_load(requests=0.8, failed=0.2),
        restarts=True,
    ),
)
MODEL_STUCK = symptom(
    "model-stuck",
    expr=f"sum without ({names.GPU_UUID}) (min_over_time({_PENDING}[{RANGE}])) > 0 and {EXECUTIONS} == 0",
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: requests wait, and no execution ends",
    runbook=Runbook(
        meaning="Requests waited at every look of five minutes and more, and not one execution ended. Triton counts "
        "when a request ends, so graphs of rates show no traffic instead of a fault.",
        impact="Every request to this model hangs until its client gives up.",
        diagnosis=("Before anything else take stacks: `py-spy dump --pid STUB` of the model's Python stubs.",),
        mitigation=("Take the replica out of service, then reload the model or restart the server.",),
    ),
    example=Example(
        labels=SAFETY,
        bad=model_load(requests=0, pending=5),
        good=model_load(pending=5),
        few=model_load(requests=1, pending=5),
        restarts=True,
    ),
)

MODEL_SYMPTOMS: tuple[SymptomAlert, ...] = (
    QUEUE_DOMINATES,
    QUEUE_GROWS,
    BATCHES_STAY_SMALL,
    REQUESTS_FAIL,
    MODEL_STUCK,
)
