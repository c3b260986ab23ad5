"""A stage spends its time moving inputs and outputs, not executing.

## Looks for
A stage's input and output time is a large part of its requests' time, and longer than its execution.

## Means
Tensors are large, copied between host and device, or converted. Typical causes: images or embeddings as FP32, many
inputs, pageable memory, Python backends that copy GPU tensors to the host.

## Rules out
- Waiting for an instance: that is queue time (`single-instance-serialization`).
- Bytes on the network: Triton's timers start after them (`client-or-transport-bound`).
- Phases that use no CPU: they wait instead of copying. Triton may write its log to a slow disk, for example.
- Full CPUs, on which every copy takes longer (`host-cpu-starved`).

## Do
1. Send less: FP16 or bytes instead of FP32, compressed images decoded in the server, fewer inputs.
2. Use shared memory: system memory for clients on the same host, CUDA memory if tensors are already on the GPU.
3. Keep tensors on their device: set `FORCE_CPU_ONLY_INPUT_TENSORS` to `no` for Python models on a GPU, and use pinned
   memory. If the log reports exhausted pinned memory, raise `--pinned-memory-pool-byte-size`.

## Sources
Triton user guide, "Shared-Memory Extension", "Optimization"; python_backend, "Input Tensor Device Placement".
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import enough_requests
from diagnostics.checks.gates import COPIES, HOST_FULL, expect_copies, host_is_full
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, INPUT_SECONDS, OUTPUT_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

DOMINANT = Limit(
    value=1.0,
    unit=Unit.RATIO,
    because="copies that take longer than the execution are what the stage does; shorter ones can hide behind it",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"copies_to_execution": DOMINANT, "host_cpu_busy": HOST_FULL, "copy_cpu": COPIES},
    reach=frozenset({Phase.INPUT, Phase.OUTPUT}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request reaches it")
    ledger.need(INPUT_SECONDS, subject)
    ledger.need(OUTPUT_SECONDS, subject)
    copies = ledger.read(INPUT_SECONDS, subject) + ledger.read(OUTPUT_SECONDS, subject)
    if not ledger.worthwhile("copies", subject, copies):
        return Quiet(because="inputs and outputs take little of a request")
    execution = ledger.read(COMPUTE_SECONDS, subject)
    if (execution.value or 0.0) > 0 and not ledger.compare("copies_to_execution", copies / execution, DOMINANT):
        return Quiet(because="the stage mostly executes")
    if host_is_full(ledger, subject):
        return Quiet(because="the host's processors are full, which slows every copy")
    expect_copies(ledger, subject)
    return _finding(ledger, subject)


def _finding(ledger: Ledger, subject: Subject) -> Fires:
    reads, writes = ledger.need(INPUT_SECONDS, subject), ledger.need(OUTPUT_SECONDS, subject)
    show = Unit.SECONDS.show
    return Fires(
        summary=f"{subject.model} spends {show(reads)} on inputs and {show(writes)} on outputs of each request, and "
        f"{show(ledger.need(COMPUTE_SECONDS, subject))} on executing it",
        claims=(
            Claim(stage=subject.model or "", phase=Phase.INPUT, seconds=reads),
            Claim(stage=subject.model or "", phase=Phase.OUTPUT, seconds=writes),
        ),
        saved_seconds=reads + writes,
        suggestion=Suggestion(
            text=f"make the tensors of {subject.model} smaller (FP16, encoded images), pass them through shared "
            "memory, and keep them on the device that uses them"
        ),
    )


_COPIES = {
    REQUESTS: 1000,
    INPUT_SECONDS: 0.03,
    OUTPUT_SECONDS: 0.01,
    COMPUTE_SECONDS: 0.008,
    REQUEST_SECONDS: 0.06,
    HOST_CPU_BUSY: 0.3,
}
CASES = (
    CheckCase.fires("when copies outlast the execution", _COPIES),
    CheckCase.quiet("when the stage executes", {**_COPIES, COMPUTE_SECONDS: 0.2}),
    CheckCase.quiet("when copies are a small part", {**_COPIES, REQUEST_SECONDS: 1.0}),
    CheckCase.quiet("when idle", {REQUESTS: 0}),
    CheckCase.quiet("on a full host", {**_COPIES, HOST_CPU_BUSY: 0.99}),
    CheckCase.unknown("when durations are not exported", {REQUESTS: 1000, REQUEST_SECONDS: 0.06}),
)
