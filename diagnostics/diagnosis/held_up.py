"""What holds a server up as a whole: it stands still, or its threads wait for a disk.

Such time is in every stage, between stages and in front of clients. A check that concludes from how long something
takes cannot separate it from its own cause: it stays open, and what holds the server up is named by itself.
"""

from __future__ import annotations

from diagnostics.checks.check import Fires
from diagnostics.checks.gates import COPIES
from diagnostics.checks.model_unavailable import STOOD_STILL
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.disk import IO_PER_LANE, IO_THREADS
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.host import COPY_CPU
from diagnostics.signals.outages import STOPPED_SECONDS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, INPUT_SECONDS, OUTPUT_SECONDS, REQUEST_RATE, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.outages import READS, STOPPED, Outage

DISK = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="time of which half is waited for I/O would be more than halved by a faster disk, whatever else is wrong",
)
# A line behind instances that are busier than this does not end within any window; ten times as many meet it then.
_LEAST_FREE = 0.1
# What each concludes from the time of executions, of their queue, of gaps or outside of the server. Whoever counts
# failures, loads or arrivals, or measures a card or a processor, knows more.
BY_TIME_INSIDE = frozenset(
    {
        "batch-size-collapse",
        "bls-serialization",
        "capacity-exceeded",
        "input-output-cost",
        "over-instanced",
        "sequence-batcher-starved",
        "single-instance-serialization",
    }
)
BY_TIME_OUTSIDE = frozenset({"client-or-transport-bound", "ensemble-overhead", "frontend-limited"})
# Requests that waited for a server to go on come all at once.
AFTER_A_STOP = BY_TIME_INSIDE | BY_TIME_OUTSIDE | {"bursty-arrivals", "scheduler-stall"}


def held_up(check: str, ledger: Ledger, subject: Subject, fires: Fires) -> Undecided | None:
    """Return why a check that fired cannot know its cause; None where nothing holds the server up."""
    stopped = stop_seconds(ledger.evidence, subject.server, outside=check in BY_TIME_OUTSIDE)
    if check in AFTER_A_STOP and stopped >= DISK.value * fires.saved_seconds and stopped > 0:
        return ledger.conflicting(STOPPED_SECONDS)
    if check in BY_TIME_INSIDE and not ledger.evidence.is_engine(subject):
        share = ledger.evidence.read(IO_PER_LANE, subject)
        if share.value is not None and share.value >= DISK.value:
            return ledger.conflicting(IO_PER_LANE)
        return ledger.conflicting(COPY_CPU) if _copies_wait(ledger.evidence, subject) else None
    if check in BY_TIME_OUTSIDE and io_seconds(ledger.evidence, subject.server) >= DISK.value * fires.saved_seconds > 0:
        return ledger.conflicting(IO_THREADS)
    return None


def _copies_wait(evidence: Evidence, subject: Subject) -> bool:
    """Return whether a model's instances are mostly held by inputs and outputs that wait instead of being copied.

    Where nothing shows whether they use a processor, they may wait where it is so of all models of a server: their
    tensors differ, and what the server's threads wait for is the same.
    """
    if _copied(evidence, subject) < DISK.value:
        return False
    used = evidence.read(COPY_CPU, Subject(server=subject.server))
    if used.value is not None:
        return used.value < COPIES.value
    served = [one for one in evidence.subjects(Scope.MODEL) if one.server == subject.server]
    shares = [_copied(evidence, one) for one in served if evidence.read(REQUESTS, one).value]
    return len(shares) > 1 and min(shares) >= DISK.value


def _copied(evidence: Evidence, subject: Subject) -> float:
    """Return the share of a model's executions in which inputs and outputs are copied; 0 where not known."""
    copies = sum(evidence.read(signal, subject).value or 0.0 for signal in (INPUT_SECONDS, OUTPUT_SECONDS))
    whole = copies + (evidence.read(COMPUTE_SECONDS, subject).value or 0.0)
    return copies / whole if whole > 0 else 0.0


def stop_seconds(evidence: Evidence, server: str, *, outside: bool = False) -> float:
    """Return what requests wait on average because their server stood still; 0 where it did not.

    Who comes in a stop of T seconds waits T ÷ 2 for its end, and whoever comes until the line is gone waits as well:
    1 ÷ (1 − utilization) times as many (fluid limit). Nobody waits for longer than it lasted. Its share of the window
    decides, so that a short one does not hide for long what else is wrong.

    Args:
        evidence: what was read.
        server: which.
        outside: count also when it answered no read and may have stood still unseen, for what passes outside of it.

    """
    moments, models = evidence.moments(server), evidence.subjects(Scope.MODEL)
    busy = [evidence.read(INSTANCE_BUSY_SHARE, subject).value or 0.0 for subject in models if subject.server == server]
    free = max(1.0 - max(busy, default=0.0), _LEAST_FREE)
    window = moments[-1] - moments[0] if moments else 0.0
    lengths = [
        ((one.until - one.since) + (one.before - one.after)) / 2
        for one in evidence.outages(Subject(server=server))
        if one.after is not None and one.before is not None and (one.state == STOPPED or (outside and _silent(one)))
    ]
    if window <= 0 or sum(lengths) < STOOD_STILL.value:
        return 0.0
    return sum(min(seconds * seconds / 2 / window / free, seconds) for seconds in lengths)


def _silent(one: Outage) -> bool:
    return one.source == READS and one.tried and not one.state


def io_seconds(evidence: Evidence, server: str) -> float:
    """Return for how long threads of a server wait for I/O per request (Little's law); 0 where not known."""
    threads = evidence.read(IO_THREADS, Subject(server=server))
    entries = [subject for subject in evidence.subjects(Scope.ENTRY) if subject.server == server]
    rate = sum(evidence.read(REQUEST_RATE, subject).value or 0.0 for subject in entries)
    return (threads.value or 0.0) / rate if rate > 0 else 0.0
