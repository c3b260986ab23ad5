"""The GPU lowers its clock between sparse requests, and each request starts at the low clock.

## Looks for
A lightly used card runs far below its highest SM clock while it executes, with idleness as the only reason. Executions
are long enough for that to matter.

## Means
With too little work, the driver lowers the clock, and raising it takes some milliseconds. The same model is faster
under more load. This is usually harmless: it costs latency only at low load, without a queue.

## Rules out
- Heat, power supply or power cap (`gpu-throttled`): NVML gives other reasons for them.
- A regression (`version-regression`): executions get faster as the rate rises.
- Network time counted as compute: the model's own execution is longer.
- Executions or engine iterations that take as long at a high clock as at a low one.

## Do
1. Do nothing if objectives hold under real load.
2. Otherwise keep the clock up: turn on persistence mode (`sudo nvidia-smi -pm 1`). Lock clocks with
   `sudo nvidia-smi -lgc MIN,MAX` (`-rgc` undoes it). This costs idle power.

## Sources
server#3599 (13.3 ms at a low rate, 7.3 ms at a higher one). Its maintainer: the GPU lowers its clock between requests.
server#4875 (the same with a CPU governor). Measured on an H100: 345 of 1,980 MHz when idle, reason 1.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.checks.entries import compute_on, lost_to_clock, name_of, together
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.clock_steps import IDLE_CLOCK_EXCESS_COMPUTE
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.gpu import GPU_TIME_USED, IDLE_CLOCK_SHARE, LOW_CLOCK
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

SPARSE = Limit(
    value=0.3,
    unit=Unit.RATIO,
    because="a card that works a third of the time has no pauses long enough to lower its clock in",
)
LOW = Limit(
    value=LOW_CLOCK,
    unit=Unit.RATIO,
    because="boost clocks settle within a fifth of the highest; below 70 % an execution takes 40 % longer",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={"gpu_time_used": SPARSE, "idle_clock_share": LOW},
    severity=Severity.INFO,
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one GPU."""
    if not ledger.at_most(GPU_TIME_USED, subject, SPARSE):
        return Quiet(because="the card works too much to lower its clock")
    compute = compute_on(ledger, subject)
    if compute.missing is Missing.IDLE:
        return Quiet(because="no request executes on the card")
    if not ledger.at_most(IDLE_CLOCK_SHARE, subject, LOW):
        return Quiet(because="the clock is up while the card works")
    share = ledger.evidence.read(IDLE_CLOCK_SHARE, subject)
    each, measured = lost_to_clock(ledger, subject, Reading.of(1.0, Unit.RATIO, "") - share, IDLE_CLOCK_EXCESS_COMPUTE)
    lost = together(each.values())
    if not ledger.worthwhile("predicted_saving", subject, lost):
        return Quiet(because="executions last as long at a high clock" if measured else "executions are short even so")
    return Fires(
        summary=f"the clock of {name_of(subject)} is at {Unit.RATIO.show(share.value)} of its highest between sparse "
        f"requests: {'' if measured else 'up to '}{Unit.SECONDS.show(lost.value)} of each one",
        saved_seconds=lost.value or 0.0,
        suggestion=Suggestion(
            text="leave it if objectives hold under real load; else persistence mode, and clocks locked with "
            "nvidia-smi -lgc",
            remedy=Remedy.MITIGATE,
        ),
    )


_SPARSE = {
    GPU_TIME_USED: 0.04,
    IDLE_CLOCK_SHARE: 0.3,
    ON_GPU: 1,
    REQUESTS: 60,
    COMPUTE_SECONDS: 0.0133,
    REQUEST_SECONDS: 0.015,
}
CASES = (
    CheckCase.fires("when sparse requests run at a low clock", _SPARSE),
    CheckCase.quiet("when the clock stays up", {**_SPARSE, IDLE_CLOCK_SHARE: 1.0}),
    CheckCase.quiet("on a card at work", {**_SPARSE, GPU_TIME_USED: 0.8}),
    CheckCase.quiet("when executions are short", {**_SPARSE, COMPUTE_SECONDS: 0.001}),
    CheckCase.unknown("without clocks", {k: v for k, v in _SPARSE.items() if k is not IDLE_CLOCK_SHARE}),
)
