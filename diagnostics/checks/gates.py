"""What the threads of a server's frontend do, for the checks that separate its waits from those of clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from diagnostics.checks.check import Quiet
from diagnostics.evidence.capacity import DEVICE_FULL, STRETCHED, instances_busy, lost_instances
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import WORTHWHILE_SECONDS, Ledger, Limit, Undecided
from diagnostics.signals.callers import FRONTEND_BUSY, HANDLING_SECONDS, TRANSFER_SECONDS
from diagnostics.signals.device import DEVICE_HEADROOM, HOST_CPU_BUSY, NO_TIME_LEFT, ON_GPU
from diagnostics.signals.executions import BATCH_MARGINAL_COST
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.host import COPY_CPU, CPU_WAIT_PER_LANE, HARDLY_WAITS
from diagnostics.signals.inner_calls import FILLABLE_SHARE, MOSTLY_NESTED, NESTED_SHARE
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.settings import DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE, PRESERVES_ORDER
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import (
    ARRIVAL_RATE,
    BATCH_SIZE,
    INPUT_SECONDS,
    OUTPUT_SECONDS,
    QUEUE_SECONDS,
    REQUEST_RATE,
    SEQUENCE_BATCHING,
)
from diagnostics.units import Unit

THREAD_BUSY = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="with one thread this busy, a request takes over three times its handling time (M/M/1: 1 ÷ (1 − 0.7))",
)
THREAD_FREE = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="a thread that is busy for under half of the time makes a request wait for less than it takes to handle "
    "it (M/M/1: 0.5 ÷ (1 − 0.5))",
)
MOST_OF_IT = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="what accounts for under half of a wait is not what to change first",
)
_FULLEST = 0.999
"""A busier thread has no mean wait: its line grows, and is as long as it was given time to become."""


def busy_of(ledger: Ledger, subject: Subject) -> Reading:
    """Return how busy a thread of the frontend is at least."""
    return ledger.evidence.read(FRONTEND_BUSY, Subject(server=subject.server))


def line_seconds(ledger: Ledger, subject: Subject) -> Reading:
    """Return the mean time of a request with a thread so busy: ρ ÷ (1 − ρ) of them are there, λ come a second.

    M/M/1 and Little's law. λ is the rate of all that the server is asked for, so where several threads share it this
    is less than the truth.
    """
    busy = busy_of(ledger, subject)
    rates = [
        ledger.evidence.read(REQUEST_RATE, one).value or 0.0
        for one in ledger.evidence.subjects(Scope.ENTRY)
        if one.server == subject.server
    ]
    if busy.value is None or not sum(rates):
        return Reading.unknown(busy.missing or Missing.IDLE, Unit.SECONDS, busy.source)
    share = min(busy.value, _FULLEST)
    return Reading.of(share / (1 - share) / sum(rates), Unit.SECONDS, busy.source, estimated=True)


def around_models(ledger: Ledger, subject: Subject) -> Reading:
    """Return a traced request's time in the frontend, its bytes' way in and out included."""
    return ledger.read(HANDLING_SECONDS, subject) + ledger.read(TRANSFER_SECONDS, subject)


def may_be_short_of_threads(ledger: Ledger, subject: Subject) -> bool:
    """Return whether a thread of the frontend may keep requests waiting, as far as traces show.

    A request that was read is handled at once on the thread that read it. If handling all of them kept one thread busy
    for half of the time, a frontend of one thread may be short of it.
    """
    held, rate = ledger.evidence.read(HANDLING_SECONDS, subject), ledger.evidence.read(REQUEST_RATE, subject)
    if held.value is None or rate.value is None:
        return False
    at_once = Reading.of(held.value * rate.value, Unit.RATIO, held.source, events=held.events)
    return ledger.as_rival().compare("handled_at_once", at_once, THREAD_FREE)


QUEUE = Limit(
    value=WORTHWHILE_SECONDS,
    unit=Unit.SECONDS,
    because="a queue below 5 ms is not worth a change",
)
BUSY = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="at 70 % a single server's mean wait passes its service time (M/G/1: ρ/(1−ρ)·(1+c²)/2); below it busy "
    "instances do not explain a queue",
)
HOST_FULL = Limit(
    value=0.9,
    unit=Unit.RATIO,
    because="above 90 % of all processors runnable threads queue for a core, and every stage slows with them",
)
CPU_WAITED = Limit(
    value=HARDLY_WAITS,
    unit=Unit.RATIO,
    because="executions that wait for a processor in under a tenth of their time would hardly be quicker with one",
)
CPU_STARVED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="executions that wait for a processor in half of their time would be twice as quick with one, however busy "
    "all processors are on average",
)
COPIES = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="a copy keeps a processor busy: a phase that uses one for under half of its time mostly waits",
)
CALLED_INSIDE = Limit(
    value=MOSTLY_NESTED, unit=Unit.RATIO, because="a model that works itself for half of its time is slow by that first"
)
BATCHABLE = Limit(value=2, unit=Unit.COUNT, because="a model that may hold one item per execution cannot batch")
BATCH_FILLED = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="an execution that takes under half of what waits or fits leaves most of batching's gain unused",
)
COST_PAYS = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="an item that costs under half of a batch of one makes a pair cheaper than two executions by a quarter",
)


class Gate(NamedTuple):
    """A rival explanation: whether it holds of a subject, and what a check answers then."""

    holds: Callable[[Ledger, Subject], bool]
    because: str


def first_rival(ledger: Ledger, subject: Subject, gates: Sequence[Gate]) -> Quiet | None:
    """Return the answer of the first gate whose explanation holds; None when none does. Later ones are not looked at.

    Raises:
        Undecided: a gate before it needs what could not be read.

    """
    return next((Quiet(because=gate.because) for gate in gates if gate.holds(ledger, subject)), None)


def waiting_items(ledger: Ledger, subject: Subject) -> Reading:
    """Return how many requests wait on average: arrival rate × mean wait (Little's law)."""
    count = ledger.evidence.read(ARRIVAL_RATE, subject) * ledger.evidence.read(QUEUE_SECONDS, subject)
    return count.with_unit(Unit.COUNT)


def batch_fill(ledger: Ledger, subject: Subject) -> Reading:
    """Return mean batch ÷ what could have been in it: the largest batch or what waits, whichever is smaller."""
    most, waiting = ledger.need(MAX_BATCH_SIZE, subject), waiting_items(ledger, subject)
    if waiting.value is None:
        raise Undecided("waiting_requests", waiting.missing or Missing.NOT_EXPORTED)
    could = Reading.of(min(most, 1.0 + waiting.value), Unit.COUNT, waiting.source, estimated=waiting.estimated)
    return ledger.evidence.read(BATCH_SIZE, subject) / could


def batching_is_left_unused(ledger: Ledger, subject: Subject) -> bool:
    """Return whether larger batches were possible and would pay: then they are cheaper than more instances.

    A sequence batcher joins only requests of different sequences, and a model has no other batcher beside it.
    """
    if ledger.evidence.read(SEQUENCE_BATCHING, subject).value:
        return False
    if not ledger.as_alternative().at_least(MAX_BATCH_SIZE, subject, BATCHABLE):
        return False
    cost = ledger.read(BATCH_MARGINAL_COST, subject)
    if cost.value is not None and cost.value >= COST_PAYS.value:
        return False
    ledger.need(DYNAMIC_BATCHING, subject)
    return ledger.compare("batch_fill", batch_fill(ledger, subject), BATCH_FILLED, at_least=False)


def is_idle(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the model had no requests in the window: then nothing can be said of it, and nothing is wrong."""
    return ledger.evidence.read(QUEUE_SECONDS, subject).missing is Missing.IDLE


def host_is_full(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the host's processors are the limit; not measured counts as no and costs confidence.

    Full processors are nobody's limit whose processes get one as soon as they want to run, and they are the limit of
    those that mostly wait for one, full or not: the average is not of the processors that these may use.
    """
    full, wait = (
        ledger.ruled_out(HOST_CPU_BUSY, subject, HOST_FULL, above=True),
        ledger.read(CPU_WAIT_PER_LANE, subject),
    )
    if wait.value is None:
        return full
    return (
        ledger.as_rival().compare(CPU_WAIT_PER_LANE.name, wait, CPU_WAITED)
        if full
        else waits_for_processors(ledger, subject)
    )


def expect_copies(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where the server's input and output phases are no copies: they use no processor.

    A thread of Triton that writes its log to a slow disk stands still in whatever phase or stage it is. A GPU may copy
    by itself: there it costs confidence that this is not known.

    Raises:
        Undecided: the phases mostly wait for something, or on processors nothing shows whether they do.

    """
    if ledger.evidence.read(ON_GPU, subject).value == 0:
        ledger.need(COPY_CPU, Subject(server=subject.server))
    if ledger.ruled_out(COPY_CPU, Subject(server=subject.server), COPIES, above=False):
        raise ledger.conflicting(COPY_CPU)


def waits_in_copies(ledger: Ledger, subject: Subject) -> bool:
    """Return whether input and output phases that are worth a change wait instead of copying; not known counts as no.

    What they wait for may hold any thread of the server, in the frontend and between stages, too.
    """
    evidence = ledger.evidence
    models = [one for one in evidence.subjects(Scope.MODEL) if one.server == subject.server]
    used = evidence.read(COPY_CPU, Subject(server=subject.server))
    copies = (evidence.read(INPUT_SECONDS, one) + evidence.read(OUTPUT_SECONDS, one) for one in models)
    if used.value is None or max((one.value or 0.0 for one in copies), default=0.0) < WORTHWHILE_SECONDS:
        return False
    return not ledger.compare(COPY_CPU.name, used, COPIES)


def expect_any_order(ledger: Ledger, model: Subject) -> None:
    """End the check as unknown where finished responses of a model may wait for those of earlier requests.

    One instance finishes requests in their order anyway. Of several, one long execution holds back all that others
    finish meanwhile, however many there are.

    Raises:
        Undecided: they leave in order, and several instances execute.

    """
    if holds_back_answers(ledger.evidence, model):
        raise ledger.conflicting(PRESERVES_ORDER)


def holds_back_answers(evidence: Evidence, model: Subject) -> bool:
    """Return whether finished responses of a model may wait for those of earlier requests; not known counts as no."""
    several = (evidence.read(INSTANCES, model).value or 0.0) >= 2
    return several and bool(evidence.read(PRESERVES_ORDER, model).value)


def waits_for_processors(ledger: Ledger, subject: Subject) -> bool:
    """Return whether a model's processes mostly wait for a processor; not measured counts as no."""
    wait = ledger.evidence.read(CPU_WAIT_PER_LANE, subject).value
    return wait is not None and wait >= CPU_STARVED.value


def device_is_full(ledger: Ledger, subject: Subject) -> bool:
    """Return whether even the most favourable reading leaves no room on the device.

    Raises:
        Undecided: nothing is known of the device; or some kernel runs all the time, and nothing shows how much of the
            device it fills.

    """
    headroom = ledger.evidence.read(DEVICE_HEADROOM, subject)
    if headroom.high is None:
        raise Undecided(DEVICE_HEADROOM.name, headroom.missing or Missing.NOT_EXPORTED)
    no_time = headroom.low is not None and headroom.low <= 1.0 - NO_TIME_LEFT
    if headroom.estimated and no_time and headroom.high >= DEVICE_FULL.value:
        raise Undecided(DEVICE_HEADROOM.name, Missing.CONFLICTING)
    most = Reading.of(
        headroom.high,
        Unit.RATIO,
        headroom.source,
        low=headroom.low,
        high=headroom.high,
        estimated=headroom.estimated,
        events=headroom.events,
    )
    return not ledger.compare(
        DEVICE_HEADROOM.name,
        most,
        Limit(value=DEVICE_FULL.value, unit=Unit.RATIO, because=DEVICE_FULL.because),
    )


def waits_for_callees(ledger: Ledger, subject: Subject) -> bool:
    """Return whether its executions are mostly other models' work; not traced counts as no.

    That costs confidence where others are called in step with it, which it may be what calls.

    Raises:
        Undecided: traces of another time show that it calls others; or calls that may fill its executions run ahead of
            it as calls from inside do, or too few reads show whether they are called in step with it.

    """
    share = ledger.evidence.read(NESTED_SHARE, subject)
    if share.missing is Missing.STALE:
        raise Undecided(NESTED_SHARE.name, Missing.STALE)
    if share.value is None:
        if (ledger.evidence.read(FILLABLE_SHARE, subject).low or 0.0) >= MOSTLY_NESTED:
            raise Undecided(NESTED_SHARE.name, share.missing or Missing.NOT_EXPORTED)
        return shows_callees(ledger, subject) and ledger.ruled_out(NESTED_SHARE, subject, CALLED_INSIDE, above=True)
    return ledger.need(NESTED_SHARE, subject) >= MOSTLY_NESTED


def shows_callees(ledger: Ledger, subject: Subject) -> bool:
    """Return whether it is traced what a model calls, or other models that are called in step leave that open.

    Raises:
        Undecided: neither, and too few reads show whether those are called in step that would fill its executions.

    """
    if ledger.evidence.read(NESTED_SHARE, subject).value is not None:
        return True
    possible = ledger.evidence.read(FILLABLE_SHARE, subject)
    if possible.missing is Missing.TOO_FEW_EVENTS:
        raise Undecided(NESTED_SHARE.name, Missing.TOO_FEW_EVENTS)
    return (possible.value or 0.0) >= MOSTLY_NESTED


def callees_are_distinguished(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where its executions may be mostly other models' work, and no trace shows it.

    Raises:
        Undecided: others are, or may be, called in step with it, or one that it calls may go on after its span.

    """
    if shows_callees(ledger, subject):
        ledger.need(NESTED_SHARE, subject)
    if (ledger.evidence.read(NESTED_SHARE, subject).high or 0.0) >= MOSTLY_NESTED:
        raise Undecided(NESTED_SHARE.name, Missing.CONFLICTING)


def would_wait_behind(ledger: Ledger, subject: Subject) -> bool:
    """Return whether requests that did not wait here would wait behind it: less is completed there than it passes on.

    While a line stands in front of a stage, the stage completes what it can, however early the others come (Lindley's
    recursion of a busy server). What is passed on and not completed lengthens that line: by the growth over T seconds
    alone a request waits (1 − completed ÷ passed) · T ÷ 2 there on average (fluid limit; Little's law). Where it
    spends less behind than that, or than it waits here, the difference is not that line's.
    """
    entry = ledger.entry_of(subject)
    if entry is None or entry.ensemble is None or entry.weight <= 0:
        return False
    caller = Subject(server=subject.server, ensemble=entry.ensemble)
    passed, left = ledger.evidence.read(REQUEST_RATE, subject), _leaving(ledger, caller)
    if not passed.value or passed.low is None or left.value is None:
        return False
    done = left.value * entry.weight
    grows = passed.low > done  # arrivals vary by chance; what a stage completes that always has a line does not
    least = (1.0 - done / passed.value) * (passed.span or 0.0) / 2
    waits = (ledger.evidence.read(QUEUE_SECONDS, subject).value or 0.0) * entry.weight
    return grows and entry.behind_seconds >= max(least, waits)


def _leaving(ledger: Ledger, caller: Subject) -> Reading:
    """Return how many requests of an ensemble end a second, failed ones included where they are counted."""
    completed, failed = ledger.evidence.read(REQUEST_RATE, caller), ledger.evidence.read(FAILED_REQUESTS, caller)
    if not failed.value or not failed.span:
        return completed
    return completed + Reading.of(failed.value / failed.span, Unit.PER_SECOND, failed.source)


def executions_take_turns(ledger: Ledger, subject: Subject) -> bool:
    """Return whether executions last longer beside others, as under a lock; one instance never shows it.

    Of several instances of which it was not measured, it costs confidence.

    Raises:
        Undecided: they do, where only a part of the window shows it: they may have become longer at that time.

    """
    stretch = ledger.evidence.read(OVERLAP_STRETCH, subject)
    if stretch.value is None and (ledger.evidence.read(INSTANCES, subject).value or 0.0) < 2:
        return False
    if stretch.value is not None and stretch.low is not None and stretch.low < STRETCHED.value <= stretch.value:
        raise ledger.conflicting(OVERLAP_STRETCH)
    return ledger.ruled_out(OVERLAP_STRETCH, subject, STRETCHED, above=True)


def has_lost_instances(ledger: Ledger, subject: Subject) -> bool:
    """Return whether instances execute nothing while requests wait; not known counts as no."""
    return lost_instances(ledger.evidence, subject) > 0


WAITS_BEHIND = "stages behind it complete less than it passes on: what did not wait here would wait there"
BUSY_LANES = (
    Gate(
        lambda ledger, subject: ledger.evidence.is_engine(subject),
        "an engine batches inside, so its instances are no measure",
    ),
    Gate(
        lambda ledger, subject: not ledger.at_least(QUEUE_SECONDS, subject, QUEUE),
        "requests hardly wait for an instance",
    ),
    Gate(
        lambda ledger, subject: not instances_busy(ledger, subject, BUSY),
        "instances are idle while requests wait",
    ),
)
"""What keeps it from being true that a model's instances are all busy and requests wait for them; cheapest first."""
SHORT_OF_LANES = (
    *BUSY_LANES,
    Gate(waits_for_callees, "it waits for models that it calls"),
    Gate(would_wait_behind, WAITS_BEHIND),
    Gate(
        lambda ledger, subject: batching_is_left_unused(ledger.as_rival(), subject),
        "larger batches are possible and cheaper than instances",
    ),
    Gate(host_is_full, "the host's processors are full"),
    Gate(device_is_full, "the device is full: another instance would only share it"),
    Gate(has_lost_instances, "some of its instances are hung or gone: more would only replace them"),
    Gate(executions_take_turns, "executions last longer beside others: more instances would share what they wait for"),
)
"""What keeps a lack of instances from being why; past these, only their number or the deployment's size is left."""
LANE_LIMITS: Mapping[str, Limit] = {
    "queue": QUEUE,
    "busy": BUSY,
    "batch_fill": BATCH_FILLED,
    "device_headroom": DEVICE_FULL,
    "host_cpu_busy": HOST_FULL,
    "cpu_wait_per_lane": CPU_STARVED,
    "overlap_stretch": STRETCHED,
}
"""The numbers that these gates compare with."""
