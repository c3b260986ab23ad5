"""Symptoms that engines, GPUs and hosts show in what Prometheus scrapes."""

from __future__ import annotations

from diagnostics import names
from diagnostics.checks.check import Severity
from diagnostics.gen.alert import label, series
from diagnostics.gen.engine_recordings import PAUSED, SLOT_FILL, WAITING
from diagnostics.gen.example_series import Example, ExampleSeries, engine_load, gauges
from diagnostics.gen.server_recordings import CPU, GPU_MEMORY, GPU_POWER
from diagnostics.gen.symptom import Runbook, SymptomAlert, all_of, symptom

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
        meaning="The engine holds requests that it has not begun, and runs as many at once as it may.",
        impact="The time to the first token grows by the wait, which Triton's own queue does not show.",
        diagnosis=("Is there KV cache left? Then the number of slots is the limit, else both are.",),
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
        meaning="The engine holds requests that it has not begun, and runs fewer at once than it may: something other "
        "than its slots is short, mostly blocks of the KV cache.",
        impact="The time to the first token grows by the wait, which Triton's own queue does not show.",
        diagnosis=(f"Compare used with free blocks in `{names.ENGINE_KV}`.",),
        mitigation=("Lower the most tokens that a request may ask for.", "Send less traffic to this replica."),
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
    summary=f"{_WHERE}: the engine pauses requests that it had begun",
    runbook=Runbook(
        meaning="The engine ran out of KV cache in the midst of requests, paused some and does part of their work "
        "again.",
        impact="Streams stop and go on; the slowest requests become far slower.",
        diagnosis=("Which scheduler policy does the engine have? Only MAX_UTILIZATION pauses.",),
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
    summary=f"{_GPU} draws nearly all the power that it may",
    runbook=Runbook(
        meaning="The card's power stays near its limit, where it lowers its clock. It does much work; whether anyone "
        "waits for it is another question.",
        impact="None by itself. When requests wait, more instances on this card do not help.",
        diagnosis=("Do models on this card queue at the same time?",),
        mitigation=("None is needed while nothing waits.",),
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
        meaning="The card's memory is in use to the last few per cent, and no engine that takes the rest by design "
        "runs there.",
        impact="The next load, reload or larger batch may fail. Requests that run are not slower for it.",
        diagnosis=("Which processes hold it? `nvidia-smi` lists them.",),
        mitigation=("Unload a model that nobody uses before you load another.",),
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
        meaning="The driver reported an Xid error of this card within a quarter of an hour, by the dcgm-exporter's "
        "page. The value is the code.",
        impact="From nothing at all to every request of the card failing, by code.",
        diagnosis=("Look the code up in NVIDIA's list of Xid errors; `dmesg | grep Xid` names the process.",),
        mitigation=("Take the node out of service where the code is of hardware or memory.",),
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
    summary=f"{label('instance')}: the processors of the machine are in use",
    runbook=Runbook(
        meaning="More than nine tenths of the machine's processor time is in use, by whatever process. A container "
        "under a quota may starve long before.",
        impact="Executions on processors, and what feeds the GPU, wait for a core.",
        diagnosis=("`top` on the machine: is it Triton, its Python stubs, or someone else?",),
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
