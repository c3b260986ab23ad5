"""Requests wait while a model loads.

## Looks for
A model was loaded, reloaded or got a new version in the window. Signs are the log, the index, restarted counters and
the load duration. Queue time is above its usual level at that time only. A load restarts counters and holds requests
before they reach a queue. The wait then shows in the ensemble's row, in the pending gauge, in clients and in traces. Or
answers stop and then arrive together.

## Means
Requests wait while a version loads. The old copy was unloaded first, both copies compete for memory or CPU, or the load
holds what executions need. Users see a spike at each deployment.

## Rules out
- A version that is slow once it serves: first executions (`cold-start`), or all of them (`version-regression`).
- A queue that is as long without a load (`single-instance-serialization`, `bursty-arrivals`).
- A load that fails (`model-unavailable`).

## Do
1. Load the new version beside the old one, warm it up, then move the traffic (blue-green). Use
   `version_policy { latest { num_versions: 2 } }` or a second replica.
2. Use explicit model control: polling may load half-copied files at any time.
3. Load when traffic is low, and check that memory holds both copies.

## Sources
Triton user guide, "Model management". server#8117 (reloading every few minutes), server#5042 (requests held for 8.5
minutes during a reload). Triton core, `model_lifecycle.cc`.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.lifecycle import COLD_COMPUTE_SECONDS, COLD_QUEUE_SECONDS, COLD_SLOWDOWN
from diagnostics.signals.load_waits import HELD_REQUESTS, HELD_SECONDS, HELD_SHARE
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.stalls import LOAD_QUEUE_SECONDS, LOAD_QUEUE_SHARE, LOADS
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.units import Unit

LOADED = Limit(value=1, unit=Unit.COUNT, because="one load is enough to wait for")
ALIGNED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="if most of the extra queue lies outside the loads, they are not its reason",
)
MANY = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="a load is over once: a wait of one request in twenty moves the 95th percentile, less moves a mean only "
    "while the window is short",
)
WARM = Limit(
    value=1.5,
    unit=Unit.COUNT,
    because="executions half again as slow after a load make requests wait by themselves, which no other way to load "
    "mends",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "loads": LOADED,
        "load_queue_share": ALIGNED,
        "held_requests": MANY,
        "held_share": ALIGNED,
        "cold_slowdown": WARM,
    },
    reach=frozenset({Phase.QUEUE, Phase.GAP}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.at_least(LOADS, subject, LOADED):
        return Quiet(because="the version was not loaded inside the window")
    if _is_held_elsewhere(ledger, subject):
        return _finding(ledger, subject, ledger.need(HELD_SECONDS, subject), _between(ledger, subject))
    if not ledger.worthwhile("load_queue", subject, ledger.read(LOAD_QUEUE_SECONDS, subject)):
        return Quiet(because="requests hardly waited for the load")
    if not ledger.at_least(LOAD_QUEUE_SHARE, subject, ALIGNED):
        return Quiet(because="requests waited as long without a load")
    # Too few reads since the load: a wait for the load cannot be separated from one for slow first executions.
    if ledger.as_rival().at_least(COLD_SLOWDOWN, subject, WARM):
        return Quiet(because="the first executions were slow: the wait may be their doing")
    seconds = ledger.need(LOAD_QUEUE_SECONDS, subject)
    return _finding(ledger, subject, seconds, (Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),))


def _is_held_elsewhere(ledger: Ledger, subject: Subject) -> bool:
    """Return whether requests waited for the load where the model's own counters do not show it.

    What its queue shows, and what its first executions took, is judged as such.
    """
    held = ledger.evidence.read(HELD_SECONDS, subject).value or 0.0
    shown = (LOAD_QUEUE_SECONDS, COLD_QUEUE_SECONDS, COLD_COMPUTE_SECONDS)
    if held <= 2 * sum(ledger.evidence.read(signal, subject).value or 0.0 for signal in shown):
        return False
    either = ledger.as_alternative()
    worth = either.worthwhile("waited_for_load", subject, either.read(HELD_SECONDS, subject))
    return worth and either.at_least(HELD_REQUESTS, subject, MANY) and either.at_least(HELD_SHARE, subject, ALIGNED)


def _between(ledger: Ledger, subject: Subject) -> tuple[Claim, ...]:
    """Return the claim on what an ensemble's requests spend between its stages."""
    return (Claim(stage="", phase=Phase.GAP, seconds=ledger.need(HELD_SECONDS, subject)),)


def _finding(ledger: Ledger, subject: Subject, seconds: float, claims: tuple[Claim, ...]) -> Fires:
    loads = ledger.need(LOADS, subject)
    times = "once" if loads == 1 else f"{loads:.0f} times"
    return Fires(
        summary=f"{subject.model} version {subject.version} was loaded {times} while it served: requests waited for "
        f"it, {Unit.SECONDS.show(seconds)} each on average over the window",
        claims=claims,
        saved_seconds=seconds,
        unseen_seconds=seconds,
        suggestion=Suggestion(
            text=f"load the next version of {subject.model} beside the one that serves, or on another replica, and "
            "move the traffic once it is warm"
        ),
    )


_STALL = {LOADS: 1, LOAD_QUEUE_SECONDS: 0.4, LOAD_QUEUE_SHARE: 0.97, COLD_SLOWDOWN: 1.1, REQUEST_SECONDS: 0.6}
_HELD = {
    LOADS: 1,
    LOAD_QUEUE_SECONDS: 0.0,
    HELD_SECONDS: 0.9,
    HELD_REQUESTS: 0.1,
    HELD_SHARE: 0.95,
    REQUEST_SECONDS: 0.6,
}
CASES = (
    CheckCase.fires("when requests waited for a load", _STALL),
    CheckCase.fires("when a load held requests before they reached a queue", _HELD),
    CheckCase.quiet("without a load", {**_STALL, LOADS: 0}),
    CheckCase.quiet("when requests wait as long at other times", {**_STALL, LOAD_QUEUE_SHARE: 0.2}),
    CheckCase.quiet("when the version was cold", {**_STALL, COLD_SLOWDOWN: 80}),
    CheckCase.unknown(
        "when too few reads tell whether the first executions were slow",
        {k: v for k, v in _STALL.items() if k is not COLD_SLOWDOWN},
    ),
)
