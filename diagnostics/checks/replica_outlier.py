"""One of several servers executes the same work slower than the others.

## Looks for
Servers have the same models and configuration, but one takes longer to execute similar batches without more traffic. At
the same traffic, its queue is longer, too.

## Means
The machine is worse than the others. Typical causes: clocks or cooling, a noisy neighbour, another driver, a bad host
path, a CPU limit. Every request that the balancer sends there is slow.

## Rules out
- More traffic, or larger batches, than the others (`replica-imbalance`).
- A different configuration: such servers are not compared.
- A version that is slow everywhere (`version-regression`).

## Do
1. Take the server out of the balancer, and check that the tail falls.
2. Compare it with a healthy server (`nvidia-smi -q -d PERFORMANCE,CLOCK`, `nvidia-smi pmon -c 1` on both). Compare
   clocks, throttle reasons, GPU processes, driver, kernel launch time, cgroup limits and interrupts.
3. Drain and replace the node. Moving the pod also helps, but hides the bad node.

## Sources
server#8947 (a node that degraded: launches 1.24 times and host functions 11.6 times slower, kernels the same).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.checks.entries import enough_requests, stages_of
from diagnostics.checks.replica_imbalance import SEVERAL, UNEVEN
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.fleet import EXECUTION_EXCESS, EXECUTION_RATIO, QUEUE_AHEAD, REPLICAS, TRAFFIC_RATIO
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

SLOWER = Limit(
    value=1.3,
    unit=Unit.COUNT,
    because="cards and hosts of one kind differ by a tenth; three times that is a fault",
)
EVEN = Limit(
    value=1.1,
    unit=Unit.COUNT,
    because="balancers that work stay within a tenth: what waits longer at as much traffic waits for slower executions",
)
CHECK = Check(
    layer=Layer.FLEET,
    scope=Scope.ENTRY,
    limits={"replicas": SEVERAL, "execution_ratio": SLOWER, "traffic_ratio": UNEVEN, "even_traffic": EVEN},
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry of one server."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request arrives here")
    if not ledger.at_least(REPLICAS, subject, SEVERAL):
        return Quiet(because="no other server serves it")
    stage = _slowest(ledger, subject)
    if stage is None:
        return Quiet(because="no server with the same configuration does the same work")
    if not ledger.at_least(EXECUTION_RATIO, stage, SLOWER):
        return Quiet(because="the others execute as slowly")
    if ledger.ruled_out(TRAFFIC_RATIO, subject, UNEVEN, above=True):
        return Quiet(because="it gets more traffic than the others")
    excess, queue = ledger.read(EXECUTION_EXCESS, stage), _waits_longer(ledger, subject, stage)
    if not ledger.worthwhile("longer_than_elsewhere", subject, excess + queue):
        return Quiet(because="the difference is small against what a request takes")
    return _finding(ledger, subject, stage, excess.value or 0.0, queue.value or 0.0)


def _waits_longer(ledger: Ledger, subject: Subject, stage: Subject) -> Reading:
    """Return how much longer requests queue for the stage than elsewhere because of its executions; none if unsure."""
    none = Reading.of(0.0, Unit.SECONDS, "statistics")
    even = ledger.read(TRAFFIC_RATIO, subject)
    if even.value is None or not ledger.as_alternative().compare("even_traffic", even, EVEN, at_least=False):
        return none
    ahead, queue = ledger.evidence.read(QUEUE_AHEAD, subject), ledger.evidence.read(QUEUE_SECONDS, stage)
    if ahead.value is None or queue.value is None or ahead.value <= 0:
        return none
    return ahead if ahead.value <= queue.value else queue


def _slowest(ledger: Ledger, subject: Subject) -> Subject | None:
    """Return the stage that differs most in seconds; None when none can be compared."""
    stages = stages_of(ledger, subject)
    excess = {stage: ledger.evidence.read(EXECUTION_EXCESS, stage).value for stage in stages}
    known = {stage: value for stage, value in excess.items() if value is not None}
    return max(known, key=lambda stage: known[stage], default=None)


def _finding(ledger: Ledger, subject: Subject, stage: Subject, excess: float, queue: float) -> Fires:
    ratio, name = ledger.need(EXECUTION_RATIO, stage), stage.model or ""
    waits = f", and requests wait {Unit.SECONDS.show(queue)} longer for them" if queue > 0 else ""
    return Fires(
        summary=f"{subject.server} executes {name} {ratio:.1f} times as long as the other servers with the same "
        f"configuration, {Unit.SECONDS.show(excess)} more each{waits}",
        claims=(
            Claim(stage=name, phase=Phase.COMPUTE, seconds=excess),
            *((Claim(stage=name, phase=Phase.QUEUE, seconds=queue),) if queue > 0 else ()),
        ),
        saved_seconds=excess + queue,
        model=name,
        suggestion=Suggestion(
            text=f"take {subject.server} out of the balancer, and compare its clocks, neighbours, driver and limits "
            "with a healthy one",
            remedy=Remedy.MITIGATE,
        ),
    )


_SLOW_NODE = {
    REQUESTS: 4000,
    REPLICAS: 3,
    EXECUTION_RATIO: 3.0,
    EXECUTION_EXCESS: 0.07,
    TRAFFIC_RATIO: 1.0,
    REQUEST_SECONDS: 0.15,
}
CASES = (
    CheckCase.fires("on the server that executes slower", _SLOW_NODE),
    CheckCase.quiet("with one server", {**_SLOW_NODE, REPLICAS: 1}),
    CheckCase.quiet("when all servers are alike", {**_SLOW_NODE, EXECUTION_RATIO: 1.05}),
    CheckCase.quiet("when the server gets more traffic", {**_SLOW_NODE, TRAFFIC_RATIO: 2.5}),
    CheckCase.quiet("when idle", {REQUESTS: 1}),
    CheckCase.unknown("when the other servers are unknown", {REQUESTS: 4000}),
)
