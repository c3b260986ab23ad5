"""A process outside Triton works on the GPU, and requests wait for their turn.

## Looks for
A process outside the server's process tree uses SM time on a card without time left. Requests take longer while it
works than while it does not. If it worked all the time, the share it takes is used.

## Means
Without MPS (NVIDIA's way to share a card between processes), kernels of several processes never overlap. They take
turns, and Triton's executions wait for each turn of the other process. In Triton, only longer executions at the same
load and batch show it.

## Rules out
- More work of its own (`gpu-saturated`): the time goes to another process, at an unchanged load.
- Another model of this server (`gpu-contended-by-colocated-model`): its process is in the tree.
- A freshly loaded model: its new processes are in the tree, too.
- Another process namespace, or MPS in between: processes cannot be distinguished, and the result is unknown.

## Do
1. Find the process on the GPU's machine: `nvidia-smi pmon -c 1`, then `ps -o pid,user,args -p PID`. Stop it, or move it
   to another card.
2. Keep other processes off: exclusive compute mode, a device plugin without time-slicing, or a dedicated node.
3. If both must share the card: MIG (hardware partitions) gives each its own part. MPS lets kernels overlap.

## Sources
NVIDIA, "Multi-Process Service" (time-sliced scheduling); NVML, `nvmlDeviceGetProcessUtilization`. bottlerocket#4673
(time-slicing ruins latency). Measured on an H200: with a batch job half of the time, p50 rose from 45 ms to 91 ms.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import compute_on, entry_on, name_of, stages_on
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_TIME_FULL
from diagnostics.signals.neighbours import (
    FOREIGN_EXCESS_COMPUTE,
    FOREIGN_EXCESS_QUEUE,
    FOREIGN_EXCESS_REQUEST,
    FOREIGN_PROCESS,
    FOREIGN_SHARE,
    FOREIGN_STAY,
)
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

FULL = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="a card that is out of time in under a tenth of the samples has turns to give to both",
)
SHARE = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="a process with a tenth of the turns slows the others by about a ninth, too little to be worth a change",
)
ALWAYS = Limit(
    value=0.9,
    unit=Unit.RATIO,
    because="with under a tenth of the window without it there is nothing to compare with: then its share must do",
)
TAIL = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="what one request in twenty meets is its 95th percentile; rarer than that, no objective shows it",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={
        "gpu_time_full": FULL,
        "foreign_gpu_share": SHARE,
        "foreign_gpu_stay": ALWAYS,
        "foreign_gpu_tail": TAIL,
    },
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one GPU."""
    if not ledger.at_least(GPU_TIME_FULL, subject, FULL):
        return Quiet(because="the card has time left")
    if not ledger.at_least(FOREIGN_SHARE, subject, SHARE):
        return Quiet(because="only the server's own processes work on the card")
    if not stages_on(ledger, subject):
        return Quiet(because="no requests pass the card")
    measured = not ledger.as_alternative().at_least(FOREIGN_STAY, subject, ALWAYS)
    if measured:
        ledger.need(FOREIGN_EXCESS_REQUEST, entry_on(ledger, subject))
    saved = (
        ledger.evidence.read(FOREIGN_EXCESS_REQUEST, entry_on(ledger, subject))
        if measured
        else _estimated(ledger, subject)
    )
    if not ledger.worthwhile(
        "taken_by_others", subject, saved, _while_there(ledger, subject, saved) if measured else None
    ):
        return Quiet(because="requests hardly take longer while the other process works")
    return Fires(
        summary=_summary(ledger, subject, saved, measured),
        claims=_claims(ledger, subject, saved.value or 0.0),
        saved_seconds=saved.value or 0.0,
        suggestion=Suggestion(
            text=f"stop process {_process(ledger, subject)} or move it off {name_of(subject)}, and keep the card for "
            "Triton (exclusive compute mode, no time-slicing); where both must share it, give each a MIG part or run "
            "MPS",
            relieves=measured,
        ),
    )


def _while_there(ledger: Ledger, subject: Subject, saved: Reading) -> Reading | None:
    """Return how many times as much a request loses that meets the other process; None where that is not certain.

    What is certain, and met by more than one request in twenty, is in the 95th percentile whatever it does to a mean.
    """
    stay = ledger.evidence.read(FOREIGN_STAY, subject).value or 0.0
    if saved.low is None or saved.low <= 0 or stay < TAIL.value:
        return None
    return Reading.of(1.0 / stay, Unit.RATIO, saved.source)


def _estimated(ledger: Ledger, subject: Subject) -> Reading:
    """Return what turns of the other process take out of each execution where nothing shows it without them."""
    share = ledger.evidence.read(FOREIGN_SHARE, subject)
    seconds = compute_on(ledger, subject) * share
    if seconds.value is None:
        return seconds
    return Reading.of(seconds.value, Unit.SECONDS, seconds.source, low=0.0, high=seconds.high, estimated=True)


def _claims(ledger: Ledger, subject: Subject, total: float) -> tuple[Claim, ...]:
    """Claim what each stage on the card lost; what no stage shows is an engine's, which hides its time."""
    claims, left = [], total
    for stage in stages_on(ledger, subject):
        for phase, signal in ((Phase.COMPUTE, FOREIGN_EXCESS_COMPUTE), (Phase.QUEUE, FOREIGN_EXCESS_QUEUE)):
            seconds = min(max(ledger.evidence.read(signal, stage).value or 0.0, 0.0), left)
            left -= seconds
            claims.append(Claim(stage=stage.model or "", phase=phase, seconds=seconds))
        if ledger.evidence.is_engine(stage):
            shown = ledger.evidence.shows_engine_time(stage)
            claims.append(Claim(stage=stage.model or "", phase=Phase.COMPUTE if shown else Phase.ENGINE, seconds=left))
            left = 0.0
    return tuple(claim for claim in claims if claim.seconds > 0)


def _summary(ledger: Ledger, subject: Subject, saved: Reading, measured: bool) -> str:
    taken = Unit.RATIO.show(ledger.evidence.read(FOREIGN_SHARE, subject).value)
    cost = Unit.SECONDS.show(saved.value)
    what = f"requests took {cost} longer for it on average" if measured else f"up to {cost} of each request"
    return (
        f"process {_process(ledger, subject)}, which is not Triton's, takes {taken} of {name_of(subject)}'s SM "
        f"time: {what}"
    )


def _process(ledger: Ledger, subject: Subject) -> str:
    return f"{ledger.read(FOREIGN_PROCESS, subject).value or 0:.0f}"


_STRANGER = {
    GPU_TIME_FULL: 0.6,
    FOREIGN_SHARE: 0.45,
    FOREIGN_PROCESS: 3445,
    FOREIGN_STAY: 0.5,
    FOREIGN_EXCESS_REQUEST: 0.028,
    FOREIGN_EXCESS_COMPUTE: 0.028,
    ON_GPU: 1,
    REQUESTS: 500,
    COMPUTE_SECONDS: 0.07,
    REQUEST_SECONDS: 0.081,
}
CASES = (
    CheckCase.fires("when requests take longer while another process works", _STRANGER),
    CheckCase.fires(
        "on its share when the other process was always present",
        {**_STRANGER, FOREIGN_STAY: 1.0, FOREIGN_EXCESS_REQUEST: 0.0},
    ),
    CheckCase.quiet("when the card has time for both", {**_STRANGER, GPU_TIME_FULL: 0.02}),
    CheckCase.quiet("when all the work is the server's own", {**_STRANGER, FOREIGN_SHARE: 0.0}),
    CheckCase.quiet("when requests take as long as without it", {**_STRANGER, FOREIGN_EXCESS_REQUEST: 0.001}),
    CheckCase.unknown(
        "when processes cannot be told apart", {k: v for k, v in _STRANGER.items() if k is not FOREIGN_SHARE}
    ),
)
