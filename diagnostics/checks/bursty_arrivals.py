"""Requests arrive in bursts that the deployment serves one after another.

## Looks for
Arrivals are far more bunched than independent clients would send them, and stages idle on average. Latency is higher
than even arrivals at this rate would cause. Queues exceed those of the scheduler model, or requests take longer when
more arrive together.

## Means
The mean load is small, but many requests arrive at once. Typical sources: a batch job, a retry storm, a gateway that
flushes, clients on one timer. They queue behind each other, or share one engine iteration, and form the tail of
latency. Averages over a minute show nothing.

## Rules out
- Independent requests at any rate (Poisson): the bunching that chance causes is allowed for.
- A stage that is busy on average: it needs capacity first (`single-instance-serialization`, `capacity-exceeded`).
- A stall behind: completions bunch then, not arrivals (`model-reload-stall`, `execution-hung`).
- One lasting rise of the rate (`workload-shift`).
- Bursts without waiting, as in dialogues: each user's next request follows an answer.
- Requests held while a model was loading or unavailable, which arrive together afterwards.
- Responses that leave in order (`preserve_ordering`, several instances): clients that get them together send together.
- Sequences that wait for a slot of their batcher (`sequence-batcher-starved`).

## Do
1. Find who sends together: count requests by client and second in the gateway's log.
2. Spread the requests: add jitter to timers and retries, or limit concurrent requests per client. A queue in front can
   release them at the mean rate.
3. If bursts are legitimate, size for them: more instances, or smaller prefill chunks in an engine. Do not judge by
   averages.

## Sources
Fendick and Whitt 1989 (index of dispersion, and queues in proportion to it); von Neumann 1941. Triton user guide,
"Metrics" (pending gauge).
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
    Severity,
    Suggestion,
)
from diagnostics.checks.entries import busiest_stage, enough_requests, stages_of
from diagnostics.checks.gates import BUSY, HOST_FULL, QUEUE, expect_any_order, host_is_full
from diagnostics.checks.instances import MODEL
from diagnostics.checks.workload_shift import rate_rose
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.arrivals import (
    BURST_CERTAINTY,
    BURST_SIZE,
    CROWDED_SECONDS,
    CROWDED_TAIL_SECONDS,
    CROWDING_CERTAINTY,
    PEAK_TO_MEAN,
)
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.queueing import predict
from diagnostics.units import Unit

PEAK = Limit(
    value=2.0,
    unit=Unit.COUNT,
    because="a deployment that is half loaded on average is full when twice the mean arrives",
)
BUNCHED = Limit(
    value=4.0,
    unit=Unit.COUNT,
    because="in heavy traffic the wait grows with the index of dispersion: at 4 bursts make three quarters of it",
)
CERTAIN = Limit(
    value=4.75,
    unit=Unit.COUNT,
    because="independent arrivals reach this standard score once in a million windows",
)
LINKED = Limit(
    value=1.64,
    unit=Unit.COUNT,
    because="a rank correlation that chance gives one time in twenty; that arrivals are bunched is certain already",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.ENTRY,
    limits={
        "peak_to_mean": PEAK,
        "burst_size": BUNCHED,
        "burst_certainty": CERTAIN,
        "crowding_certainty": LINKED,
        "queue": QUEUE,
        "instance_busy_share": BUSY,
        "host_cpu_busy": HOST_FULL,
    },
    severity=Severity.WARNING,
    reach=frozenset({Phase.QUEUE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry."""
    if not enough_requests(ledger, subject):
        return Quiet(because="hardly any request arrives")
    if quiet := _even(ledger, subject):
        return quiet
    if host_is_full(ledger, subject):
        return Quiet(because="the host's processors are full on average already")
    if busiest_stage(ledger.as_rival(), subject, BUSY):
        return Quiet(because="a stage is busy on average already")
    if any(_waits_for_a_slot(ledger, stage) for stage in stages_of(ledger, subject)):
        return Quiet(because="requests of a sequence wait for a slot of the sequence batcher, however they arrive")
    queues = _queue_of_bursts(ledger, subject)
    if ledger.as_alternative().worthwhile("queue_of_bursts", subject, queues):
        return _finding(ledger, subject, queues.value or 0.0, "they wait {} for each other")
    if not ledger.at_least(CROWDING_CERTAINTY, subject, LINKED):
        return Quiet(because="requests take as long in company as alone")
    tail = ledger.read(CROWDED_TAIL_SECONDS, subject)
    if not ledger.worthwhile("crowded_tail", subject, tail):
        return Quiet(because="at even arrivals requests would take about as long")
    return _finding(ledger, subject, tail.value or 0.0, "one in twenty would take {} less at even arrivals")


def _even(ledger: Ledger, subject: Subject) -> Quiet | None:
    """Return why requests come in no bursts; None when they do."""
    if not ledger.at_least(PEAK_TO_MEAN, subject, PEAK):
        return Quiet(because="no moment brings much more than the mean")
    if not ledger.at_least(BURST_SIZE, subject, BUNCHED):
        return Quiet(because="arrivals are no more bunched than independent requests")
    if not ledger.at_least(BURST_CERTAINTY, subject, CERTAIN):
        return Quiet(because="independent requests bunch as much by chance")
    if rate_rose(ledger.as_rival(), subject):
        return Quiet(because="the rate rose once and stayed: nothing comes and goes")
    return None


def _waits_for_a_slot(ledger: Ledger, stage: Subject) -> bool:
    config = ledger.evidence.config(stage)
    sequences = config is not None and config.sequence_batching
    return sequences and (ledger.evidence.read(QUEUE_SECONDS, stage).value or 0.0) >= QUEUE.value


def _queue_of_bursts(ledger: Ledger, subject: Subject) -> Reading:
    """Return what the stages' queues exceed those that even load would have, by the scheduler model, in seconds."""
    excess = 0.0
    for stage in stages_of(ledger, subject):
        queue = ledger.evidence.read(QUEUE_SECONDS, stage).value or 0.0
        if queue < QUEUE.value or ledger.evidence.is_engine(stage):
            continue
        try:
            forecast = predict(stage_load(ledger, stage))
        except Undecided:
            continue  # a stage of unknown settings adds nothing to what is certain
        excess += max(queue - (forecast.queue_high or queue), 0.0)
    return Reading.of(excess, Unit.SECONDS, f"{MODEL} and statistics", estimated=excess > 0)


def _finding(ledger: Ledger, subject: Subject, harm: float, how: str) -> Fires:
    for stage in stages_of(ledger, subject):
        expect_any_order(ledger, stage)  # who waited for a response that left with others sends again with others
    size, peak = ledger.need(BURST_SIZE, subject), ledger.need(PEAK_TO_MEAN, subject)
    saved = max(ledger.read(CROWDED_SECONDS, subject).value or 0.0, _queue_of_bursts(ledger, subject).value or 0.0)
    name = subject.ensemble or subject.model
    return Fires(
        summary=f"requests of {name} arrive in groups of about {size:.0f}, {peak:.1f} times the mean rate at the peak: "
        f"{how.format(Unit.SECONDS.show(harm))}, while on average its stages idle",
        claims=tuple(_claims(ledger, subject, saved)),
        saved_seconds=saved,
        suggestion=Suggestion(
            text="spread the arrivals: jitter on timers and retries, a limit of concurrent requests per client, or a "
            "queue in front that releases at the mean rate; more capacity helps only if it is sized for the burst"
        ),
    )


def _claims(ledger: Ledger, subject: Subject, saved: float) -> Iterator[Claim]:
    """Yield the queues of the stages, then what is left of the saving inside an engine."""
    left = saved
    for stage in stages_of(ledger, subject):
        seconds = min(ledger.evidence.read(QUEUE_SECONDS, stage).value or 0.0, left)
        left -= seconds
        yield Claim(stage=stage.model or "", phase=Phase.QUEUE, seconds=seconds)
    for stage in stages_of(ledger, subject):
        if ledger.evidence.is_engine(stage):
            hidden = not ledger.evidence.shows_engine_time(stage)
            yield Claim(stage=stage.model or "", phase=Phase.ENGINE if hidden else Phase.COMPUTE, seconds=left)
            return


_BURSTS = {
    REQUESTS: 420,
    PEAK_TO_MEAN: 3.9,
    BURST_SIZE: 30,
    BURST_CERTAINTY: 15,
    CROWDING_CERTAINTY: 2.0,
    CROWDED_TAIL_SECONDS: 0.11,
    CROWDED_SECONDS: 0.05,
    REQUEST_SECONDS: 0.26,
    INSTANCE_BUSY_SHARE: 0.05,
    QUEUE_SECONDS: 0.05,
    HOST_CPU_BUSY: 0.2,
}
CASES = (
    CheckCase.fires("when groups of requests wait for each other", _BURSTS),
    CheckCase.quiet("when requests are independent", {**_BURSTS, BURST_SIZE: 1.3, BURST_CERTAINTY: 0.9}),
    CheckCase.quiet("when nobody waits for it", {**_BURSTS, QUEUE_SECONDS: 0.002, CROWDED_TAIL_SECONDS: 0.002}),
    CheckCase.quiet("when a stage is busy on average", {**_BURSTS, INSTANCE_BUSY_SHARE: 0.9}),
    CheckCase.quiet("when idle", {REQUESTS: 3}),
    CheckCase.unknown("when arrivals cannot be counted", {REQUESTS: 420, REQUEST_SECONDS: 0.26}),
)
