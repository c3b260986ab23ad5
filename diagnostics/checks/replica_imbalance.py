"""One of several servers gets far more traffic than the others, and its requests wait.

## Looks for
Several servers serve the same entry point. One gets at least half as many requests again as their mean, and its queue
is longer.

## Means
The deployment has room, but the balancer does not use it. Long-lived connections (gRPC, HTTP keep-alive) pin clients to
a server, weights are wrong, or affinity concentrates one tenant's traffic.

## Rules out
- Chance: the share must exceed what independent choices produce.
- Uneven traffic without a wait.
- A server that is slower at the same load (`replica-outlier`).

## Do
1. Balance per request, not per connection: an L7 balancer for gRPC, client-side `round_robin`, or a maximum connection
   age.
2. Balance by outstanding requests (least request), not by count.
3. Check weights, affinity and readiness of the idle servers.

## Sources
gRPC documentation, "Load Balancing"; Kubernetes blog, "gRPC Load Balancing on Kubernetes without Tears".
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import enough_requests, stages_of
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.fleet import QUEUE_AHEAD, REPLICAS, TRAFFIC_CERTAINTY, TRAFFIC_RATIO
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

SEVERAL = Limit(value=2, unit=Unit.COUNT, because="one server has nothing to be balanced with")
UNEVEN = Limit(
    value=1.5,
    unit=Unit.COUNT,
    because="half as much again takes a server of a fleet that is 60 % busy to 90 %; balancers that work stay within a "
    "tenth",
)
CERTAIN = Limit(value=4.75, unit=Unit.COUNT, because="even traffic shows this standard score once in a million windows")
CHECK = Check(
    layer=Layer.FLEET,
    scope=Scope.ENTRY,
    limits={"replicas": SEVERAL, "traffic_ratio": UNEVEN, "traffic_certainty": CERTAIN},
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry of one server."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request arrives here")
    if not ledger.at_least(REPLICAS, subject, SEVERAL):
        return Quiet(because="no other server serves it")
    if not ledger.at_least(TRAFFIC_RATIO, subject, UNEVEN):
        return Quiet(because="the other servers get as much")
    if not ledger.at_least(TRAFFIC_CERTAINTY, subject, CERTAIN):
        return Quiet(because="chance spreads so few requests as unevenly")
    ahead = ledger.read(QUEUE_AHEAD, subject)
    if not ledger.worthwhile("queue_ahead", subject, ahead):
        return Quiet(because="requests wait no longer here than elsewhere")
    ratio, replicas, name = (
        ledger.need(TRAFFIC_RATIO, subject),
        ledger.need(REPLICAS, subject),
        subject.ensemble or subject.model,
    )
    return Fires(
        summary=f"{subject.server} gets {ratio:.1f} times the mean traffic of the {replicas:.0f} servers of {name}, "
        f"and its requests wait {Unit.SECONDS.show(ahead.value)} longer than theirs",
        claims=_claims(ledger, subject, ahead.value or 0.0),
        saved_seconds=ahead.value or 0.0,
        suggestion=Suggestion(
            text="balance per request instead of per connection, by outstanding requests; check weights and affinity "
            "of the servers that idle",
            load=1 / ratio,
        ),
    )


def _claims(ledger: Ledger, subject: Subject, seconds: float) -> tuple[Claim, ...]:
    queues = {stage: ledger.evidence.read(QUEUE_SECONDS, stage).value or 0.0 for stage in stages_of(ledger, subject)}
    total = sum(queues.values()) or 1.0
    return tuple(
        Claim(stage=stage.model or "", phase=Phase.QUEUE, seconds=seconds * queue / total)
        for stage, queue in queues.items()
    )


_SKEWED = {
    REQUESTS: 4000,
    REPLICAS: 3,
    TRAFFIC_RATIO: 2.1,
    TRAFFIC_CERTAINTY: 30,
    QUEUE_AHEAD: 0.1,
    QUEUE_SECONDS: 0.12,
    REQUEST_SECONDS: 0.25,
}
CASES = (
    CheckCase.fires("on the server that gets most of the traffic", _SKEWED),
    CheckCase.quiet("with one server", {**_SKEWED, REPLICAS: 1}),
    CheckCase.quiet("when traffic is even", {**_SKEWED, TRAFFIC_RATIO: 1.1}),
    CheckCase.quiet("when nobody waits", {**_SKEWED, QUEUE_AHEAD: 0.0005}),
    CheckCase.quiet("when idle", {REQUESTS: 1}),
    CheckCase.unknown(
        "when the other servers' queues are unknown", {k: v for k, v in _SKEWED.items() if k is not QUEUE_AHEAD}
    ),
)
