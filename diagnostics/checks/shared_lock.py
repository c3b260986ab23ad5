"""Instances that may take turns, as under a lock that they share, for the check that weighs a lack of them.

Instances that wait for each other look as busy as instances that work. Executions separate the two where some run
beside fewer others; so do processors where each execution uses one all the time.
"""

from __future__ import annotations

from dataclasses import replace

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Fires, Quiet, Suggestion
from diagnostics.checks.gates import callees_are_distinguished, host_is_full, waits_for_callees
from diagnostics.checks.instances import queue_of
from diagnostics.evidence.capacity import SIDE_BY_SIDE, STRETCHED, stage_load
from diagnostics.evidence.ledger import Ledger, Undecided
from diagnostics.signals.device import HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_WAIT_PER_LANE
from diagnostics.signals.overlap import OVERLAP_STRETCH
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Reading, Subject
from diagnostics.signals.triton import QUEUE_SECONDS
from diagnostics.tuning.queueing import predict
from diagnostics.units import Unit


def takes_turns(ledger: Ledger, subject: Subject) -> bool:
    """Return whether instances wait for something of each other's that is neither a device, a processor nor a model.

    Raises:
        Undecided: they do, and nothing was read of the processors: these may be what they share.

    """
    stretch = ledger.evidence.read(OVERLAP_STRETCH, subject)
    if stretch.low is None or stretch.low < STRETCHED.value or ledger.evidence.read(ON_GPU, subject).value != 0:
        return False
    ledger.as_alternative().compare(OVERLAP_STRETCH.name, stretch, STRETCHED)
    if ledger.evidence.is_engine(subject) or host_is_full(ledger, subject) or waits_for_callees(ledger, subject):
        return False
    callees_are_distinguished(ledger, subject)
    waits = ledger.evidence.read(CPU_WAIT_PER_LANE, subject)
    if waits.value is None and ledger.evidence.read(HOST_CPU_BUSY, subject).value is None:
        raise Undecided(CPU_WAIT_PER_LANE.name, waits.missing or Missing.NOT_EXPORTED)
    return True


def in_turns(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide what is gained where each execution takes as long as beside fewer others."""
    stretch, show = ledger.evidence.read(OVERLAP_STRETCH, subject), Unit.SECONDS.show
    now, queue, load = (
        ledger.need(EXECUTION_SECONDS, subject),
        ledger.evidence.read(QUEUE_SECONDS, subject),
        stage_load(ledger, subject),
    )
    shorter = now * (1.0 - 1.0 / (stretch.value or 1.0))
    alone = predict(replace(load, service=load.service.scaled(1.0 / (stretch.value or 1.0))))
    waits = queue - queue_of(alone)
    saved = waits + Reading.of(shorter, Unit.SECONDS, stretch.source)
    if not ledger.worthwhile("without_turns_saves", subject, saved):
        return Quiet(because="executions that take turns cost little")
    return Fires(
        summary=f"{load.instances} instances of {subject.model} take turns: next to others, an execution takes "
        f"{stretch.value:.2g} times as long ({show(now)} on average), with room on the device and the host",
        claims=(
            Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=shorter),
            Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=max(waits.value or 0.0, 0.0)),
        ),
        saved_seconds=saved.value or 0.0,
        suggestion=Suggestion(
            text=f"find what the instances of {subject.model} share (a lock on a file or in a database, a mutex, one "
            "thread pool) and remove it: more instances would wait for it, too"
        ),
    )


def work_or_turns(ledger: Ledger, subject: Subject, saved: float) -> Fires:
    """Name instances that are all busy, and promise nothing of more of them."""
    instances, show = ledger.need(INSTANCES, subject), Unit.SECONDS.show
    busy, queue = ledger.need(INSTANCE_BUSY_SHARE, subject), ledger.need(QUEUE_SECONDS, subject)
    return Fires(
        summary=f"all {instances:.0f} instances of {subject.model} busy {Unit.RATIO.show(min(busy, 1.0))} of the time: "
        f"requests wait {show(queue)} for {show(ledger.need(EXECUTION_SECONDS, subject))} of work; {SIDE_BY_SIDE}",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=saved),),
        saved_seconds=saved,
        suggestion=Suggestion(
            text=f"first find out whether the instances of {subject.model} share a lock or thread pool: run one "
            "instance alone under load. If an execution takes as long as now, raise instance_group count. If it is "
            "shorter, more instances would wait for the lock, too. Traces of all requests (rate=1), stacks (py-spy "
            "dump --pid STUB) and processor time per thread (top -H) show it as well"
        ),
    )
