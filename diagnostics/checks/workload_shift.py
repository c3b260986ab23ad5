"""The workload changed inside the window, and requests have taken longer since.

## Looks for
The arrival rate, or the items per request, rose at one moment and stayed higher. The mean latency is higher after it
than before.

## Means
Nothing in the deployment broke: more traffic, or larger requests, arrived from that moment on. Someone launched
something, moved traffic here, or changed a client.

## Rules out
- Bursts that come and go (`bursty-arrivals`): a shift stays to the end of the window.
- A load, a new version or other settings at that moment (`version-regression`, `model-reload-stall`).
- A stage that is now full: that stage is the cause, and this finding is its trigger.
- An engine that has room for all of them. Its iterations lengthen with each request that joins, and none waits.

## Do
1. Ask who made a change at that time: clients, batch jobs, routing, prompts.
2. If the new load stays, size for it: run `diag explain HOST:8000` on the new load alone. It names the full stage and
   what it needs.
3. If it does not stay, limit it in front of Triton.

## Sources
Levin and Kline 1985 (change points that last). SRE workbook, "Managing Load".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import (
    Check,
    CheckCase,
    Claim,
    Fires,
    Layer,
    Quiet,
    Remedy,
    Severity,
    Suggestion,
)
from diagnostics.checks.engine_gates import cache_is_short, nothing_held_back, slots_are_taken
from diagnostics.checks.entries import busiest_stage, enough_requests, stages_of
from diagnostics.checks.gates import BUSY
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, Ledger, Limit, Undecided
from diagnostics.signals.engine import ENGINE_WAIT_SECONDS
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.mix import (
    RATE_SHIFT,
    RATE_SHIFT_CERTAINTY,
    RATE_SHIFT_SECONDS,
    SIZE_SHIFT,
    SIZE_SHIFT_SECONDS,
)
from diagnostics.signals.signal import Scope, Signal, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened
from diagnostics.window.onset import CHANGE_FACTOR

SHIFTED = Limit(
    value=CHANGE_FACTOR,
    unit=Unit.COUNT,
    because="half as much again is beyond what a minute's traffic varies by, and takes a stage from 60 % busy to 90 %",
)
CERTAIN = Limit(
    value=4.75,
    unit=Unit.COUNT,
    because="the same traffic shows this standard score once in a million windows",
)
CHECK = Check(
    layer=Layer.CLIENT,
    scope=Scope.ENTRY,
    limits={
        "size_shift": SHIFTED,
        "rate_shift": SHIFTED,
        "rate_shift_certainty": CERTAIN,
        "instance_busy_share": BUSY,
    },
    reach=frozenset({Phase.QUEUE}),
)
_DEPLOYED = (Happened.LOADED, Happened.RELOADED, Happened.RESTARTED, Happened.CONFIGURED)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request arrives")
    either = ledger.as_alternative()
    larger = ledger.evidence.read(SIZE_SHIFT, subject).value is not None and either.at_least(
        SIZE_SHIFT, subject, SHIFTED
    )
    if not larger and not rate_rose(ledger, subject):
        return Quiet(because="as much arrives at the end of the window as at its start")
    extra = SIZE_SHIFT_SECONDS if larger else RATE_SHIFT_SECONDS
    if not ledger.worthwhile("shift", subject, ledger.read(extra, subject)):
        return Quiet(because="requests hardly take longer since")
    if any(
        change.kind in _DEPLOYED for change in ledger.evidence.changes(subject.server) if _inside(ledger, change.at)
    ):
        return Quiet(because="the deployment itself changed inside the window")
    full = busiest_stage(either, subject, BUSY) or any(
        _is_full_engine(either, stage) for stage in stages_of(ledger, subject)
    )
    joins = not larger and _joins_a_batch(ledger, subject)
    return _finding(ledger, subject, extra, larger=larger, elsewhere=full or joins)


def rate_rose(ledger: Ledger, subject: Subject) -> bool:
    """Return whether surely more arrives from one moment on; what cannot be determined counts as no."""
    if ledger.evidence.read(RATE_SHIFT, subject).value is None:
        return False  # too short to tell, or arrivals cannot be counted: then nothing is known to have changed
    return ledger.at_least(RATE_SHIFT, subject, SHIFTED) and ledger.at_least(RATE_SHIFT_CERTAINTY, subject, CERTAIN)


def _is_full_engine(ledger: Ledger, subject: Subject) -> bool:
    """Return whether requests wait inside an engine for its slots or its cache; not said counts as no."""
    if not ledger.evidence.is_engine(subject):
        return False
    try:
        return nothing_held_back(ledger, subject) is None and (
            slots_are_taken(ledger, subject) or cache_is_short(ledger, subject)
        )
    except Undecided:
        return False


def _joins_a_batch(ledger: Ledger, subject: Subject) -> bool:
    """Return whether requests hardly wait anywhere, also inside an engine, which then has room for each."""
    stages = stages_of(ledger, subject)
    engines = [stage for stage in stages if ledger.evidence.is_engine(stage)]
    inside = [ledger.evidence.read(ENGINE_WAIT_SECONDS, stage).value for stage in engines]
    waits = [ledger.evidence.read(QUEUE_SECONDS, stage).value for stage in stages]
    known = [seconds for seconds in (*inside, *waits) if seconds is not None]
    return bool(engines) and len(known) == len(inside) + len(waits) and sum(known) < WORTHWHILE_SECONDS


def _inside(ledger: Ledger, at: float) -> bool:
    moments = [
        moment for server in ledger.evidence.subjects(Scope.SERVER) for moment in ledger.evidence.moments(server.server)
    ]
    return bool(moments) and min(moments) <= at <= max(moments)


def _finding(ledger: Ledger, subject: Subject, extra: Signal, *, larger: bool, elsewhere: bool) -> Fires:
    seconds, name = ledger.need(extra, subject), subject.ensemble or subject.model
    factor = ledger.need(SIZE_SHIFT if larger else RATE_SHIFT, subject)
    what = (
        f"requests of {name} became {factor:.1f} times as large" if larger else f"{factor:.1f} times as many requests"
    )
    where = "" if larger else f" of {name} arrive"
    return Fires(
        summary=f"{what}{where} from one moment on, and they take {Unit.SECONDS.show(seconds)} longer since",
        claims=() if elsewhere else tuple(_claims(ledger, subject, seconds)),
        saved_seconds=0.0 if elsewhere else seconds,
        severity=Severity.INFO if elsewhere else Severity.WARNING,
        suggestion=Suggestion(
            text="ask who made a change at that time; if the new load stays, size the deployment for it, otherwise "
            "limit it in front of Triton",
            remedy=Remedy.MITIGATE,
        ),
    )


def _claims(ledger: Ledger, subject: Subject, seconds: float) -> Iterator[Claim]:
    """Yield the queues of the stages, up to what requests take longer."""
    left = seconds
    for stage in stages_of(ledger, subject):
        queue = min(ledger.evidence.read(QUEUE_SECONDS, stage).value or 0.0, left)
        left -= queue
        yield Claim(stage=stage.model or "", phase=Phase.QUEUE, seconds=queue)


_SHIFT = {
    REQUESTS: 4000,
    SIZE_SHIFT: 1.0,
    RATE_SHIFT: 2.2,
    RATE_SHIFT_CERTAINTY: 20,
    RATE_SHIFT_SECONDS: 0.08,
    SIZE_SHIFT_SECONDS: 0.0,
    REQUEST_SECONDS: 0.2,
    INSTANCE_BUSY_SHARE: 0.5,
    QUEUE_SECONDS: 0.05,
}
CASES = (
    CheckCase.fires("when twice as much arrives from one moment on", _SHIFT),
    CheckCase.fires("when requests grew", {**_SHIFT, RATE_SHIFT: 1.0, SIZE_SHIFT: 3.0, SIZE_SHIFT_SECONDS: 0.1}),
    CheckCase.quiet("when the load stayed", {**_SHIFT, RATE_SHIFT: 1.0}),
    CheckCase.quiet("when no request was slower", {**_SHIFT, RATE_SHIFT_SECONDS: 0.001}),
    CheckCase.quiet("when idle", {REQUESTS: 2}),
    CheckCase.unknown(
        "when the stages' load is unknown", {k: v for k, v in _SHIFT.items() if k is not INSTANCE_BUSY_SHARE}
    ),
)
