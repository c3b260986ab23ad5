"""Symptoms: alerts on what Prometheus alone can see of models, engines, GPUs and hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from diagnostics import names
from diagnostics.checks.check import Severity
from diagnostics.gen.alert import Alert, label, series
from diagnostics.gen.example_series import SAFETY, Example, ExampleSeries, engine_load, gauges, model_load, situations
from diagnostics.gen.recordings import (
    BATCH_SIZE,
    CPU,
    EXECUTIONS,
    FAILURE_RATIO,
    FAILURES,
    GPU_MEMORY,
    GPU_POWER,
    PAUSED,
    QUEUE_MEAN,
    QUEUE_SHARE,
    RANGE,
    RANGE_SECONDS,
    REQUESTS,
    SLOT_FILL,
    WAITING,
)

PREFIX = "Triton"
GROUP = "symptoms"
# Separates alerts on symptoms from those on causes, which inhibit them.
KIND = "kind"
SYMPTOM = "symptom"
_WHY = f"Why, and what to change: diag explain {label('instance')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runbook:
    """What a page says besides the alert itself.

    Attributes:
        meaning, impact: a paragraph each.
        diagnosis, mitigation: steps, in order.

    """

    meaning: str
    impact: str
    diagnosis: tuple[str, ...]
    mitigation: tuple[str, ...]

    def sections(self) -> Mapping[str, str]:
        """Return the texts by heading, in order; steps are numbered."""
        return {
            "Meaning": self.meaning,
            "Impact": self.impact,
            "Diagnosis": _steps(self.diagnosis),
            "Mitigation": _steps(self.mitigation),
        }


def _steps(steps: Iterable[str]) -> str:
    return "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SymptomAlert:
    """An alert on a symptom with its runbook; which checks it points to, the checks say themselves."""

    alert: Alert
    runbook: Runbook


def symptom(
    identifier: str,
    *,
    expr: str,
    hold: int,
    severity: Severity,
    summary: str,
    runbook: Runbook,
    example: Example,
) -> SymptomAlert:
    """Return a symptom; its alert carries the server's name as alerts on causes do, so that these can inhibit it."""
    alert = Alert(
        id=identifier,
        group=GROUP,
        prefix=PREFIX,
        expr=expr,
        hold_minutes=hold,
        severity=severity.value,
        summary=summary,
        description=f"{runbook.meaning} {_WHY}",
        labels={KIND: SYMPTOM, "server": label("instance")},
        situations=situations(example, hold),
    )
    return SymptomAlert(alert=alert, runbook=runbook)


def all_of(*expressions: str) -> str:
    """Return the conjunction of conditions on the same series."""
    return " and ".join(expressions)


_FULL_SLOTS = 0.8
_WAITS = f"{WAITING} > 0.5"
_POWER = 0.9
_MEMORY = 0.97
_PROCESSORS = 0.9
_XID = names.DCGM_XID[0]

_ENGINE = {"instance": "triton-0:8002", "job": "triton", "model": "llm", "version": "1"}
_CARD = {names.GPU_UUID: "GPU-1", "instance": "triton-0:8002", "job": "triton"}
_HOST = {"instance": "triton-0:8002", "job": "triton"}
_DCGM_CARD = {"UUID": "GPU-1", "gpu": "0", "instance": "node-0:9400", "job": "dcgm"}
_WHERE = f"{label('model')} on {label('instance')}"
_GPU = f"GPU {label(names.GPU_UUID)} of {label('instance')}"
# An engine takes what is left of a card's memory by design.
_NO_ENGINE = f"unless on (job, instance) ({names.ENGINE_KV} or {names.VLLM_RUNNING})"

ENGINE_SLOTS_FULL = symptom(
    "engine-slots-full",
    expr=all_of(_WAITS, f"{SLOT_FILL} > {_FULL_SLOTS}"),
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: requests wait inside the engine, and all its slots are taken",
    runbook=Runbook(
        meaning="Requests wait inside the engine, and all its slots are in use.",
        impact="The time to the first token grows by this wait. Triton's own queue does not show it.",
        diagnosis=("Is KV cache free? Then slots are the limit. If not, both are.",),
        mitigation=("Send less traffic to this replica, or add one.",),
    ),
    example=Example(
        labels=_ENGINE,
        bad=engine_load(_ENGINE, waiting=5, scheduled=8),
        good=engine_load(_ENGINE, waiting=0, scheduled=8),
    ),
)
ENGINE_WAITS = symptom(
    "engine-waits-with-free-slots",
    expr=all_of(_WAITS, f"{SLOT_FILL} <= {_FULL_SLOTS}"),
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: requests wait inside the engine although slots are free",
    runbook=Runbook(
        meaning="Requests wait inside the engine although slots are free. Something else is short, mostly blocks of "
        "the KV cache.",
        impact="The time to the first token grows by this wait. Triton's own queue does not show it.",
        diagnosis=(f"Compare used with free blocks in `{names.ENGINE_KV}`.",),
        mitigation=("Lower the maximum number of tokens per request.", "Send less traffic to this replica."),
    ),
    example=Example(
        labels=_ENGINE,
        bad=engine_load(_ENGINE, waiting=5, scheduled=3),
        good=engine_load(_ENGINE, waiting=5, scheduled=8),
    ),
)
ENGINE_PAUSES = symptom(
    "engine-pauses-requests",
    expr=f"{PAUSED} > 0",
    hold=5,
    severity=Severity.WARNING,
    summary=f"{_WHERE}: the engine pauses running requests",
    runbook=Runbook(
        meaning="The engine ran out of KV cache while requests ran. It paused some, and will repeat part of their "
        "work.",
        impact="Streams stop and continue, and the slowest requests get far slower.",
        diagnosis=("Check the engine's scheduler policy: only MAX_UTILIZATION pauses requests.",),
        mitigation=("Send less traffic to this replica.",),
    ),
    example=Example(
        labels=_ENGINE,
        bad=engine_load(_ENGINE, waiting=0, scheduled=4, paused=2),
        good=engine_load(_ENGINE, waiting=0, scheduled=4),
    ),
)
GPU_AT_POWER_LIMIT = symptom(
    "gpu-at-power-limit",
    expr=f"{GPU_POWER} > {_POWER}",
    hold=10,
    severity=Severity.INFO,
    summary=f"{_GPU} draws nearly all of its power limit",
    runbook=Runbook(
        meaning="The card's power stays near its limit, and the card lowers its clock. It is busy, but requests may "
        "not wait for it.",
        impact="No impact by itself. If requests wait, more instances on this card do not help.",
        diagnosis=("Do models on this card queue at the same time?",),
        mitigation=("Do nothing while no request waits.",),
    ),
    example=Example(
        labels=_CARD,
        bad=gauges(_CARD, {names.GPU_POWER: 690, names.GPU_POWER_LIMIT: 700}),
        good=gauges(_CARD, {names.GPU_POWER: 500, names.GPU_POWER_LIMIT: 700}),
        first=0,
    ),
)
GPU_MEMORY_FULL = symptom(
    "gpu-memory-full",
    expr=f"{GPU_MEMORY} > {_MEMORY} {_NO_ENGINE}",
    hold=10,
    severity=Severity.INFO,
    summary=f"{_GPU} has hardly any memory left",
    runbook=Runbook(
        meaning="The card's memory is in use to the last few per cent. No engine that takes the rest by design runs "
        "there.",
        impact="The next load, reload or larger batch may fail. Running requests are not slower.",
        diagnosis=("List the processes that hold it: `nvidia-smi`.",),
        mitigation=("Unload an unused model before you load another.",),
    ),
    example=Example(
        labels=_CARD,
        bad=gauges(_CARD, {names.GPU_MEMORY_USED: 79, names.GPU_MEMORY_TOTAL: 80}),
        good=gauges(_CARD, {names.GPU_MEMORY_USED: 60, names.GPU_MEMORY_TOTAL: 80}),
        first=0,
    ),
)
GPU_REPORTS_ERRORS = symptom(
    "gpu-reports-errors",
    expr=f"{_XID} > 0 and changes({_XID}[15m]) > 0",
    hold=0,
    severity=Severity.WARNING,
    summary=f"GPU {label('gpu')} ({label('UUID')}) at {label('instance')} reports an error of the driver",
    runbook=Runbook(
        meaning="Within 15 minutes, the driver reported an Xid error of this card on dcgm-exporter's page. The value "
        "is the code.",
        impact="It depends on the code: from no effect to the failure of every request on the card.",
        diagnosis=("Look up the code in NVIDIA's list of Xid errors. `dmesg | grep Xid` shows the process.",),
        mitigation=("If the code is about hardware or memory, take the node out of service.",),
    ),
    example=Example(
        labels=_DCGM_CARD,
        bad={series(_XID, _DCGM_CARD): ExampleSeries(value=79, counter=True)},
        good=gauges(_DCGM_CARD, {_XID: 0}),
    ),
)
HOST_CPU_FULL = symptom(
    "host-cpu-full",
    expr=f"{CPU} > {_PROCESSORS}",
    hold=10,
    severity=Severity.WARNING,
    summary=f"{label('instance')}: the machine's CPU is nearly full",
    runbook=Runbook(
        meaning="More than 90 % of the machine's CPU time is in use, by any process. A container with a quota may be "
        "short of CPU long before that.",
        impact="CPU executions, and threads that feed the GPU, wait for a core.",
        diagnosis=("Run `top` on the machine: is it Triton, its Python stubs, or another process?",),
        mitigation=("Move other work off the machine.",),
    ),
    example=Example(
        labels=_HOST,
        bad=gauges(_HOST, {names.CPU_UTILIZATION: 0.97}),
        good=gauges(_HOST, {names.CPU_UTILIZATION: 0.7}),
        first=0,
    ),
)

MACHINE_SYMPTOMS: tuple[SymptomAlert, ...] = (
    ENGINE_SLOTS_FULL,
    ENGINE_WAITS,
    ENGINE_PAUSES,
    GPU_AT_POWER_LIMIT,
    GPU_MEMORY_FULL,
    GPU_REPORTS_ERRORS,
    HOST_CPU_FULL,
)


# Below, a change would gain too little to act on, as for the checks.
_LEAST_WAIT_SECONDS = 0.005
_LARGE_SHARE = 0.4
_ENOUGH_REQUESTS = 10
_FAILED_SHARE = 0.01
_ENOUGH_FAILURES = 5
_SMALL_BATCH = 1.5
_GROWTH = 10

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
        meaning="For ten minutes, requests waited for an instance for at least 40 % of the model's own time. The mean "
        "wait was at least 5 ms. This alert cannot show the cause.",
        impact="Each request waits through this queue, and in an ensemble through the queue of each such stage.",
        diagnosis=("Is only one replica affected? Compare it with the others before you change the model.",),
        mitigation=(
            "Until the cause is known, send less traffic here or add a replica.",
            "Do not add instances because of the queue alone: on a full GPU they make it worse.",
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
    summary=f"{_WHERE}: more requests arrive than are served",
    runbook=Runbook(
        meaning="In every sample of the last five minutes, more requests waited than in any sample ten minutes "
        "earlier. A queue that grows like this does not drain by itself.",
        impact="Each request waits longer than the one before. In the end, clients time out or the queue refuses "
        "requests.",
        diagnosis=("Compare the request rate with an hour ago: has traffic grown, or has the service slowed?",),
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
    summary=f"{_WHERE}: requests wait, but run one at a time",
    runbook=Runbook(
        meaning="Requests wait in the queue while each execution holds hardly more than one. A model that cannot batch "
        "looks the same.",
        impact="One request per execution costs about as much as several, so throughput is lost.",
        diagnosis=("Check `max_batch_size` and `dynamic_batching` of the model: can it batch at all?",),
        mitigation=("Nothing for this alert alone: the wait has its own alert.",),
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
        meaning="For five minutes, more than 1 % of requests failed, cancelled ones excluded. Failures of an ensemble "
        "may be errors of a member or a full queue. Triton counts most of them twice.",
        impact="Clients get errors, or retry and add load.",
        diagnosis=(
            f"Compare the label `reason` of `{names.REQUEST_FAILURE}`. BACKEND is the model's code, and REJECTED a "
            "queue's timeout. OTHER of an ensemble, with no failing member, is a full queue.",
        ),
        mitigation=(
            "Roll back the last deployment of this model.",
            "If only one replica fails, take it out of service.",
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
    summary=f"{_WHERE}: requests wait, but no execution ends",
    runbook=Runbook(
        meaning="Requests waited in every sample for at least five minutes, and no execution ended. Triton counts a "
        "request when it ends, so graphs of rates show no traffic instead of a fault.",
        impact="Every request to this model hangs until its client gives up.",
        diagnosis=("Before anything else, dump the stacks of the model's Python stubs: `py-spy dump --pid STUB`.",),
        mitigation=("Take the replica out of service. Then reload the model or restart the server.",),
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
