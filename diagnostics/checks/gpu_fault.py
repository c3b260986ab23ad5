"""The driver reports a fault of the GPU itself.

## Looks for
Any of these in this window:
- An Xid error (the driver's error code) about the card or its driver.
- New uncorrected memory errors, or a memory row that could not be replaced.
- A driver that reports the card as lost or in need of a reset.

## Means
Until the card is reset or exchanged, work on it fails, hangs or runs slower. A load balancer may still see a healthy
server.

## Rules out
- Errors of the program on the card (Xid 13, 31, 43, 45 and similar), such as a faulty kernel.
- An old error: DCGM keeps the last code forever, so it counts only if it changed in the window.
- Corrected memory errors: the card has repaired them.

## Do
1. Take the node out of service (cordon, drain). Run `nvidia-bug-report.sh`, and save the kernel log
   (`dmesg | grep Xid`).
2. Reset the card with nothing running on it (`sudo nvidia-smi -r -i GPU`), or reboot. This also completes a pending
   remap of a memory row (`nvidia-smi -q -d ROW_REMAPPER`).
3. If a remap failed, errors return or the card is lost, have it exchanged.

## Sources
NVIDIA, "XID Errors" (catalogue), "GPU Memory Error Management" (row remapping). NVML, `nvmlEventTypeXidCriticalError`.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.checks.entries import name_of
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.gpu import FAULT_CODE, GPU_LOST, MEMORY_ERRORS, REMAP_FAILED, REMAP_PENDING
from diagnostics.signals.signal import Scope, Subject
from diagnostics.units import Unit

ANY = Limit(
    value=1, unit=Unit.COUNT, because="a healthy card has no such error, and the driver calls even one critical"
)
LOST = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="a lost card stays lost until a reset; a single refused sample does not count",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={"gpu_fault_code": ANY, "gpu_memory_errors": ANY, "gpu_remap_failed": ANY, "gpu_lost": LOST},
    symptom="gpu-reports-errors",
)
_SIGNS = (
    (FAULT_CODE, "the driver reported Xid {}"),
    (MEMORY_ERRORS, "{} uncorrected memory errors came up"),
    (REMAP_FAILED, "a bad row of memory could not be replaced"),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one GPU."""
    stated = []
    lost = ledger.read(GPU_LOST, subject)
    if lost.value is not None and ledger.as_alternative().compare(GPU_LOST.name, lost, LOST):
        stated.append("the driver calls it lost or in need of a reset")
    reported = 0
    for signal, words in _SIGNS:
        reading = ledger.read(signal, subject)
        if reading.value is None:
            continue
        reported += 1
        if ledger.as_alternative().compare(signal.name, reading, ANY):
            stated.append(words.format(f"{reading.value:.0f}"))
    if not stated and not reported and lost.value is None:
        ledger.need(FAULT_CODE, subject)
    if not stated:
        return Quiet(because="the driver reports no fault of the card")
    reset = "reset the card, which bad rows of its memory wait for" if _waits(ledger, subject) else "reset the card"
    return Fires(
        summary=f"{name_of(subject)} has a fault: {', '.join(stated)}",
        severity=Severity.CRITICAL if lost.value else Severity.WARNING,
        suggestion=Suggestion(
            text=f"take the node out of service, keep nvidia-bug-report.sh and the kernel's log, {reset}; if it comes "
            "back, have the card exchanged",
            remedy=Remedy.MITIGATE,
        ),
    )


def _waits(ledger: Ledger, subject: Subject) -> bool:
    """Return whether rows of memory are replaced at the next reset: no fault by itself, as they are out of use."""
    return bool(ledger.read(REMAP_PENDING, subject).value)


_SOUND = {FAULT_CODE: 0, MEMORY_ERRORS: 0, REMAP_FAILED: 0, GPU_LOST: 0.0}
CASES = (
    CheckCase.fires("on an Xid of the card", {**_SOUND, FAULT_CODE: 79}),
    CheckCase.fires(
        "on uncorrected memory errors, whose rows the next reset replaces",
        {**_SOUND, MEMORY_ERRORS: 2, REMAP_PENDING: 1},
    ),
    CheckCase.fires("on a lost card", {GPU_LOST: 0.9}),
    CheckCase.quiet("on a healthy card", _SOUND),
    CheckCase.quiet(
        "on a known program error, and on rows that the next reset replaces",
        {GPU_LOST: 0.0, MEMORY_ERRORS: 0, REMAP_PENDING: 1},
    ),
    CheckCase.unknown("when the driver was not read", {}),
)
