"""An ensemble's requests lose time between its stages.

## Looks for
Traces show gaps on the critical path of an ensemble's requests in which no stage works. Gaps lie between one stage's
output and the next one's start, and at either end.

## Means
The ensemble scheduler takes long. It copies large intermediate tensors, above all between GPU and CPU. Or it waits for
its own limit (`max_inflight_requests`), or runs many small steps that one stage could do.

## Rules out
- An engine that answers from its own thread: the gap after it is its work. If a Python stage might do the same, the
  largest gap counts as its work.
- Branches that wait for each other: the gap is measured after the last one.
- A server that waits for a disk: its input and output phases are long, and use no CPU.
- Stages whose responses leave in order (`preserve_ordering` and several instances): finished ones may wait.
- A host without spare CPU, which delays every hand-over (`host-cpu-starved`).

## Do
1. Find the stages between which time passes: `gap_before_seconds` in `diag explain HOST:8000 --output json`, or single
   traces.
2. Keep intermediate tensors small, and on one device: Python stages on `KIND_GPU` data need
   `FORCE_CPU_ONLY_INPUT_TENSORS: no`. Otherwise every hand-over copies to the CPU.
3. Merge small neighbouring stages into one. An ensemble has no instances: `instance_group` has no effect on it.

## Sources
Triton user guide, "Ensemble models" and "Tracing". Python backend, "Input tensor device placement". server#5829 (12 s
in a step whose code took under 1 s: copies of big images).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.gates import COPIES, HOST_FULL, expect_any_order, host_is_full, waits_in_copies
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.gaps import HIDDEN_MEMBERS, OVERHEAD_SECONDS
from diagnostics.signals.host import COPY_CPU
from diagnostics.signals.orchestration import ENSEMBLE_CALLS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.units import Unit

CALLED = Limit(value=1, unit=Unit.COUNT, because="without requests nothing is lost")
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.ENSEMBLE,
    limits={"ensemble_calls": CALLED, "host_cpu_busy": HOST_FULL, "copy_cpu": COPIES},
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one ensemble."""
    if not ledger.at_least(ENSEMBLE_CALLS, subject, CALLED):
        return Quiet(because="the ensemble idles")
    lost = ledger.read(OVERHEAD_SECONDS, subject)
    if lost.value is None and ledger.read(HIDDEN_MEMBERS, subject).value:
        return Quiet(because="without traces, what no stage accounts for is its engine's")
    if not ledger.worthwhile(OVERHEAD_SECONDS.name, subject, lost):
        return Quiet(because="hardly any time passes between its stages")
    if host_is_full(ledger, subject):
        return Quiet(because="the host's processors are full: every hand-over is late")
    if waits_in_copies(ledger, subject):
        raise ledger.conflicting(COPY_CPU)
    ensemble = ledger.evidence.graph(subject.server).ensembles.get(subject.ensemble or "")
    for model in ensemble.models() if ensemble else ():
        expect_any_order(ledger, Subject(server=subject.server, model=model))
    seconds = lost.value or 0.0
    return Fires(
        summary=f"each request of {subject.ensemble} spends {Unit.SECONDS.show(seconds)} between its stages",
        claims=(Claim(stage="", phase=Phase.GAP, seconds=seconds),),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text=f"make what the stages of {subject.ensemble} hand over smaller and keep it on one device, or merge "
            "small neighbouring stages"
        ),
    )


_LOST = {
    ENSEMBLE_CALLS: 500,
    OVERHEAD_SECONDS: 0.04,
    REQUEST_SECONDS: 0.12,
    HIDDEN_MEMBERS: 0,
    HOST_CPU_BUSY: 0.3,
}
CASES = (
    CheckCase.fires("when a third of a request passes between stages", _LOST),
    CheckCase.quiet("when the hand-over is quick", {**_LOST, OVERHEAD_SECONDS: 0.0002}),
    CheckCase.quiet("about an idle ensemble", {**_LOST, ENSEMBLE_CALLS: 0}),
    CheckCase.quiet("on a host without spare CPU", {**_LOST, HOST_CPU_BUSY: 0.97}),
    CheckCase.quiet(
        "when only its engine can explain the rest", {ENSEMBLE_CALLS: 500, REQUEST_SECONDS: 0.12, HIDDEN_MEMBERS: 1}
    ),
    CheckCase.unknown("without traces", {ENSEMBLE_CALLS: 500, REQUEST_SECONDS: 0.12, HIDDEN_MEMBERS: 0}),
)
