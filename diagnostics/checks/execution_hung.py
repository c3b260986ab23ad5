"""Executions began and never end.

## Looks for
Requests that wait at every read up to the last one, while not a single execution of the model ends or fails, for many
times as long as executions take.

## Means
Every instance of the model is stuck inside its backend: a deadlock, a lost collective of a multi-GPU engine, a call
without a timeout, a stopped process. Counters stand still, so a dashboard of rates shows no traffic instead of a fault.

## Rules out
- An idle model: nothing waits then.
- A load: a version that was just loaded may initialise for long (`cold-start`, `model-reload-stall`).
- Executions that take long by nature: the limit counts in their own length.
- A pause that ended inside the window (`scheduler-stall`).

## Do
1. Before anything else take stacks: `py-spy dump --pid STUB` of the Python stubs,
   `gdb -p SERVER -batch -ex 'thread apply all bt'` of the server; `dmesg | grep Xid` for an error of the GPU.
2. Reload the model (`curl -X POST HOST:8000/v2/repository/models/NAME/load`), or restart the replica, to serve again.
3. Give calls inside the model a timeout, and the queue one (`default_timeout_microseconds`), so that clients get an
   error instead of silence.

## Sources
server#5927 (counters move only when a request ends: stalls show in the pending gauge). Triton core,
`infer_stats.cc`.
"""

from __future__ import annotations

from diagnostics.checks.check import Case, Check, Expected, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.stalls import LOADS, STANDSTILL_SECONDS, WAITING_NOW
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.units import Unit

STILL = Limit(
    value=10.0,
    unit=Unit.SECONDS,
    because="the scheduler's own pauses end after half a second, garbage collectors' and page faults' within seconds",
)
MANY = Limit(
    value=20.0,
    unit=Unit.COUNT,
    because="an execution of twenty times the mean is one in 500 million where times are exponential",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"standstill_seconds": STILL, "standstill_executions": MANY},
    severity=Severity.CRITICAL,
    symptom="model-stuck",
)


def diagnose(see: Ledger, on: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    still = see.read(STANDSTILL_SECONDS, on)
    if still.missing is not None:
        if see.evidence.read(REQUESTS, on).value:
            return Quiet(because="requests of it end")
        raise Undecided(STANDSTILL_SECONDS.name, still.missing)
    if not see.compare(STANDSTILL_SECONDS.name, still, STILL):
        return Quiet(because="nothing waits, or executions end")
    if see.evidence.read(LOADS, on).value:
        return Quiet(because="the version was loaded inside the window and may still initialise")
    usual = see.evidence.read(EXECUTION_SECONDS, on)
    if usual.value is None:
        raise Undecided(EXECUTION_SECONDS.name, usual.missing or Missing.NOT_EXPORTED)
    if not see.compare("standstill_executions", (still / usual).with_unit(Unit.COUNT), MANY):
        return Quiet(because="executions of this model take that long")
    return _finding(see, on, still, usual)


def _finding(see: Ledger, on: Subject, still: Reading, usual: Reading) -> Fires:
    waiting = see.need(WAITING_NOW, on)
    ended = see.evidence.read(REQUESTS, on).value or 0.0
    return Fires(
        summary=f"no execution of {on.model} has ended for {Unit.SECONDS.show(still.value)}, usually they take "
        f"{Unit.SECONDS.show(usual.value)}; {waiting:.0f} requests wait",
        failed_share=waiting / max(waiting + ended, 1.0),
        suggestion=Suggestion(
            text=f"take stacks of the stuck instances of {on.model}, then reload the model or restart the replica; "
            "the fix is a timeout for what the model calls",
            remedy=Remedy.MITIGATE,
        ),
    )


_STUCK = {
    STANDSTILL_SECONDS: 40,
    WAITING_NOW: 200,
    LOADS: 0,
    EXECUTION_SECONDS: 0.02,
    REQUESTS: 800,
}
CASES = (
    Case(title="fires when requests wait and nothing ends", expect=Expected.FIRES, readings=_STUCK),
    Case(title="is quiet when nothing waits", expect=Expected.QUIET, readings={**_STUCK, STANDSTILL_SECONDS: 0}),
    Case(
        title="is quiet when executions take that long",
        expect=Expected.QUIET,
        readings={**_STUCK, EXECUTION_SECONDS: 4.0},
    ),
    Case(title="is quiet while a version initialises", expect=Expected.QUIET, readings={**_STUCK, LOADS: 1}),
    Case(
        title="is quiet without the gauge when requests end",
        expect=Expected.QUIET,
        readings={REQUESTS: 800},
    ),
    Case(
        title="is unknown when no execution was ever seen to end",
        expect=Expected.UNKNOWN,
        readings={STANDSTILL_SECONDS: 40, WAITING_NOW: 3, LOADS: 0},
    ),
)
