"""The offered load of a stage, and what keeps its configured instances from being capacity."""

from __future__ import annotations

from diagnostics import names
from diagnostics.evidence.evidence import Evidence, Span
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.capacity import LOST_INSTANCES, MOST_AT_ONCE, RATE_LIMIT, RATE_LIMIT_USE, ROUNDING
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE, WAITING_SECONDS
from diagnostics.signals.flow import LOST_BEFORE_STAGE
from diagnostics.signals.host import CPU_PER_LANE
from diagnostics.signals.mix import RATE_SHIFT, SIZE_SHIFT
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE, QUEUE_LIMIT
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE
from diagnostics.tuning.queueing import StageLoad
from diagnostics.units import Unit
from diagnostics.window.onset import CHANGE_FACTOR

# Counters hold no spread of execution times. GPU kernels and sleeping stages spread by about a tenth of their mean
# (squared coefficient 0.01); a Python stage by up to its mean (1). A quarter of the mean squared lies between them.
SERVICE_SCV = 0.06


def _refused(ledger: Ledger, subject: Subject) -> float:
    """Requests that a limited queue rejected: they arrive too once there is room."""
    if not ledger.read(QUEUE_LIMIT, subject).value:
        return 0.0
    return max(ledger.read(LOST_BEFORE_STAGE, subject).value or 0.0, 0.0)


def while_waiting(ledger: Ledger, subject: Subject) -> Span | None:
    """Return the part of the window since requests wait for a model; None where they wait all along, or at times.

    None also where more or larger requests came from one moment on: then the waits are that change's.
    """
    waiting, moments = ledger.evidence.read(WAITING_SECONDS, subject), ledger.evidence.moments(subject.server)
    if waiting.value is None or not moments or _load_changed(ledger, subject):
        return None
    return moments[-1] - waiting.value, moments[-1]


def _load_changed(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the entry of a model gets half as many requests again from a moment on, or larger ones."""
    entry = ledger.entry_of(subject)
    ensemble = entry.ensemble if entry is not None else None
    caller = entry.caller if entry is not None else ""
    on = Subject(server=subject.server, model=None if ensemble else caller or subject.model, ensemble=ensemble)
    return any((ledger.evidence.read(one, on).value or 0.0) >= CHANGE_FACTOR for one in (RATE_SHIFT, SIZE_SHIFT))


def busy_while_waiting(ledger: Ledger, subject: Subject) -> Reading:
    """Return how busy a model's instances are since requests wait for it: what was before says nothing of that."""
    return ledger.evidence.read(INSTANCE_BUSY_SHARE, subject, while_waiting(ledger, subject))


def instances_busy(ledger: Ledger, subject: Subject, limit: Limit) -> bool:
    """Return whether a model's instances are as busy as a limit since requests wait for it.

    Raises:
        Undecided: how busy they are could not be read.

    """
    since = while_waiting(ledger, subject)
    busy = ledger.evidence.read(INSTANCE_BUSY_SHARE, subject, since)
    if busy.value is None or since is None:
        return ledger.at_least(INSTANCE_BUSY_SHARE, subject, limit)
    return ledger.compare(INSTANCE_BUSY_SHARE.name, busy, limit)


def stage_load(ledger: Ledger, subject: Subject) -> StageLoad:
    """Return what is offered to a stage, at least since requests wait for it, and how it is scheduled now.

    Raises:
        Undecided: the arrival rate, the service time or a setting could not be read.

    """
    service = ledger.evidence.service_time(subject)
    if service is None:
        raise Undecided(EXECUTION_SECONDS.name, Missing.NOT_EXPORTED)
    arrivals = ledger.read(ARRIVAL_RATE, subject)
    if arrivals.value is None:
        raise Undecided(ARRIVAL_RATE.name, arrivals.missing or Missing.NOT_EXPORTED)
    offered = arrivals.value + _refused(ledger, subject) / arrivals.span if arrivals.span else arrivals.value
    since = ledger.evidence.read(ARRIVAL_RATE, subject, while_waiting(ledger, subject))
    offered += max((since.value or 0.0) - arrivals.value, 0.0)
    items = max(ledger.read(CLIENT_BATCH_SIZE, subject).value or 1.0, 1.0)
    return StageLoad(
        arrival_rate=offered * items,
        service=service,
        service_scv=SERVICE_SCV,
        instances=max(round(ledger.need(INSTANCES, subject)), 1),
        max_batch=round(ledger.need(MAX_BATCH_SIZE, subject)),
        batching=ledger.need(DYNAMIC_BATCHING, subject) > 0,
        delay_seconds=ledger.need(BATCH_DELAY, subject),
        items=items,
        span_seconds=arrivals.span,
    )


DEVICE_FULL = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="with a tenth of the device left, more work at once takes longer instead of waiting less",
)
IN_USE = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="a resource that is held for 70 % of the time makes each request for it wait longer than it is held "
    "(M/G/1)",
)
STRETCHED = Limit(
    value=1.25,
    unit=Unit.RATIO,
    because="executions that take turns last 50 % longer next to another; the limit is half of that",
)


def is_rate_limited(evidence: Evidence, subject: Subject) -> bool:
    """Return whether executions use up what there is of a resource, and no more go on at once than it allows."""
    use, limit = evidence.read(RATE_LIMIT_USE, subject), evidence.read(RATE_LIMIT, subject)
    if not use.value or use.value < IN_USE.value or limit.value is None:
        return False
    # Where nothing says that the limiter is on, instances that are all busy need no other reason.
    busy, most = evidence.read(INSTANCE_BUSY_SHARE, subject), evidence.read(MOST_AT_ONCE, subject)
    doubtful = limit.estimated and (busy.value or 0.0) >= IN_USE.value
    return not doubtful and most.low is not None and most.low <= limit.value * ROUNDING


def limiting(evidence: Evidence, server: str) -> Subject | None:
    """Return the model whose resources hold a server's executions back; None where none does."""
    models = (one for one in evidence.subjects(Scope.MODEL) if one.server == server)
    return next((one for one in models if is_rate_limited(evidence, one)), None)


def lost_instances(evidence: Evidence, subject: Subject) -> int:
    """Return how many instances execute nothing while requests wait for one; 0 where that is not known."""
    return round(evidence.read(LOST_INSTANCES, subject).value or 0.0)


def take_turns(evidence: Evidence, subject: Subject) -> bool:
    """Return whether executions last longer beside others, as under a lock; one instance never shows it."""
    stretch = evidence.read(OVERLAP_STRETCH, subject)
    return stretch.value is not None and stretch.value >= STRETCHED.value


SIDE_BY_SIDE = "nothing shows whether the instances work side by side or wait for a lock that they share"
# Up to a tenth of an execution passes outside of its process, in copies of tensors and in the dispatch.
_ONE_PROCESSOR = 0.1


def may_take_turns(evidence: Evidence, subject: Subject) -> bool:
    """Return whether instances that are all busy may wait for each other: several, and nothing rules it out."""
    several = (evidence.read(INSTANCES, subject).value or 0.0) >= 2
    return (
        several
        and evidence.read(OVERLAP_STRETCH, subject).value is None
        and not _all_use_a_processor(evidence, subject)
    )


def _all_use_a_processor(evidence: Evidence, subject: Subject) -> bool:
    """Return whether each execution of a Python model uses one processor all the time: what waits for a lock uses none.

    One that uses several while others wait for it would come to one each on average only by chance. What waits for a
    GPU may use a processor, too.
    """
    config, used = evidence.config(subject), evidence.read(CPU_PER_LANE, subject)
    if config is None or config.backend != names.PYTHON_BACKEND or evidence.read(ON_GPU, subject).value != 0:
        return False
    return used.value is not None and abs(used.value - 1.0) <= _ONE_PROCESSOR
