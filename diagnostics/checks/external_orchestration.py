"""An ensemble idles while clients call its members one after another.

## Looks for
An ensemble gets no requests, while its members are all called from outside, in step. Their running totals differ by no
more than the requests in flight between them. With client records or traced callers, also the time that these calls
add.

## Means
The pipeline is configured on the server, but a client or a service runs it by hand. Each stage costs a round trip:
encoding, network and the caller's own time. Intermediate tensors travel twice.

## Rules out
- Members that are called independently: totals of independent callers drift apart, these do not.
- Another ensemble with the same members: its calls are subtracted.
- A model that calls the members inside the server (BLS, business logic scripting): it runs in step with them.
- An ensemble whose requests all fail: failed requests count.

## Do
1. Send the request to the ensemble instead. Its inputs and outputs are those of the first and last stage.
2. Move what the caller does between the stages into a Python stage of the ensemble.
3. If only some calls need the whole pipeline, keep the members callable: an ensemble allows it.

## Sources
Triton user guide, "Ensemble models": "to avoid the overhead of transferring intermediate tensors". The limit is the
probability that two independent streams stay as close (Brownian motion): below 1 %.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.evidence.ledger import WORTHWHILE_PART, WORTHWHILE_TIME, Ledger, Limit
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.orchestration import (
    DIRECT_CALLS,
    ENSEMBLE_CALLS,
    HOP_SECONDS,
    LOCKSTEP,
    LOCKSTEP_GAP,
    MOST_USED,
    ORCHESTRATED_SECONDS,
    WRAPPED,
)
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.units import Unit

CALLED = Limit(
    value=ENOUGH_EVENTS,
    unit=Unit.COUNT,
    because="thirty requests that agree at every read are no coincidence; a few may be",
)
IDLE = Limit(
    value=MOST_USED,
    unit=Unit.RATIO,
    because="an ensemble that gets a twentieth of its members' requests is tried out, not used",
)
IN_STEP = Limit(
    value=LOCKSTEP,
    unit=Unit.RATIO,
    because="independent callers' running totals stay this close with a probability below 1 %",
)
NONE = Limit(value=0.5, unit=Unit.COUNT, because="one such model is enough to do the calling")
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.ENSEMBLE,
    limits={
        "direct_calls": CALLED,
        "ensemble_part": IDLE,
        "lockstep_gap": IN_STEP,
        "called_in_step_with_a_model": NONE,
        "hop_seconds": WORTHWHILE_TIME,
        "hop_share": WORTHWHILE_PART,
    },
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one ensemble."""
    if not ledger.at_least(DIRECT_CALLS, subject, CALLED):
        return Quiet(because="its members are not called from outside")
    used = ledger.evidence.read(ENSEMBLE_CALLS, subject) / ledger.evidence.read(DIRECT_CALLS, subject)
    if not ledger.compare("ensemble_part", used, IDLE, at_least=False):
        return Quiet(because="the ensemble is in use")
    if not ledger.at_most(LOCKSTEP_GAP, subject, IN_STEP):
        return Quiet(because="its members are called independently of each other")
    if not ledger.at_most(WRAPPED, subject, NONE):
        return Quiet(because="a model that is called in step with the members may call them inside the server")
    hops = ledger.read(HOP_SECONDS, subject)
    return _finding(ledger, subject, hops, _worthwhile(ledger, subject, hops))


def _worthwhile(ledger: Ledger, subject: Subject, hops: Reading) -> bool:
    """Return whether the calls' overhead is worth a change; unmeasured it is taken to be, at less confidence."""
    whole = ledger.evidence.read(ORCHESTRATED_SECONDS, subject)
    if hops.value is None or whole.value is None:
        return not ledger.ruled_out(HOP_SECONDS, subject, WORTHWHILE_TIME, above=False)
    enough = ledger.compare(HOP_SECONDS.name, hops, WORTHWHILE_TIME)
    return ledger.compare("hop_share", hops / whole, WORTHWHILE_PART) and enough


def _finding(ledger: Ledger, subject: Subject, hops: Reading, worthwhile: bool) -> Fires:
    calls, seconds = ledger.need(DIRECT_CALLS, subject), hops.value or 0.0
    cost = f", which costs {Unit.SECONDS.show(seconds)} between the calls" if hops.value is not None else ""
    return Fires(
        summary=f"clients call the members of {subject.ensemble} one after another, {Unit.COUNT.show(calls)} times "
        f"each, while {subject.ensemble} itself idles{cost}",
        claims=(Claim(stage="", phase=Phase.GAP, seconds=seconds),) if seconds > 0 else (),
        saved_seconds=seconds,
        severity=Severity.WARNING if worthwhile else Severity.INFO,
        suggestion=Suggestion(
            text=f"send requests to {subject.ensemble} instead of its members: it does the same calls inside the "
            "server; what the caller does between them becomes a Python stage"
        ),
    )


_BY_HAND = {
    ENSEMBLE_CALLS: 0,
    DIRECT_CALLS: 432,
    LOCKSTEP_GAP: 0.07,
    WRAPPED: 0,
    HOP_SECONDS: 0.066,
    ORCHESTRATED_SECONDS: 0.194,
}
CASES = (
    CheckCase.fires("when all members are called in step", _BY_HAND),
    CheckCase.fires(
        "when the cost of the calls is unknown",
        {k: v for k, v in _BY_HAND.items() if k not in (HOP_SECONDS, ORCHESTRATED_SECONDS)},
    ),
    CheckCase.quiet("when the ensemble is in use", {**_BY_HAND, ENSEMBLE_CALLS: 400}),
    CheckCase.quiet("when members are called independently", {**_BY_HAND, LOCKSTEP_GAP: 1.2}),
    CheckCase.quiet("when a model inside the server may do the calling", {**_BY_HAND, WRAPPED: 1}),
    CheckCase.unknown("without counters", {}),
)
