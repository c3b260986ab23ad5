"""The CPU is full: executions wait for a core, and their instances wait with them.

## Looks for
Requests wait for busy instances of a CPU model, and the host or its quota has no CPU time left. The server's processes
do use CPU: a fair part of a core per executing instance. Or a model's processes wait for a core in half of their
execution time. The average over all cores and a queue of requests do not matter then. Or executions or engine
iterations are longer while the server is denied CPU time, at no higher load. A quota, the hypervisor or a queue for
cores can deny it.

## Means
More threads want to run than there are cores. Each execution is stretched by its wait for a core: instances look busy
but do not work. One more instance is one more thread in the same queue.

## Rules out
- Instances on a busy host that wait for a sleep, a network call or a GPU: they hardly use CPU.
- Executions that take as long when the server gets all the CPU time it wants.
- A busy host on which no request and no execution waits: it does its work.
- Too few instances on a host with room (`single-instance-serialization`).
- Too many kernels on one card (`gpu-saturated`, `over-instanced`).

## Do
1. Find which limit it is: `cat /sys/fs/cgroup/cpu.stat` (the quota, if `nr_throttled` grows) or `top` (all cores in
   use). Give the server a larger quota or more cores.
2. Take work off the CPU: other processes, busy polling, thread pools wider than cores ÷ instances
   (`intra_op_thread_count`, OMP_NUM_THREADS).
3. Move the stage to a faster implementation, or to the GPU. Reducing instances to the number of cores costs nothing.

## Sources
Linux, `Documentation/accounting/psi.rst` and `cgroup-v2.rst`. server#7213 (four CPU instances slower than one),
server#3386 (idle neighbours that burn CPU), onnxruntime_backend#34 (thread pools).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import time_on
from diagnostics.checks.gates import BUSY, CPU_STARVED, CPU_WAITED, HOST_FULL, QUEUE, is_idle, waits_for_processors
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.cpu_steps import CPU_SHORT_EXCESS_COMPUTE, CPU_SHORT_EXCESS_QUEUE, CPU_SHORT_SHARE
from diagnostics.signals.device import HOST_CPU_BUSY, ON_GPU
from diagnostics.signals.executions import EXECUTION_SECONDS, INSTANCE_BUSY_SHARE
from diagnostics.signals.host import CPU_PER_LANE, CPU_PRESSURE, CPU_THROTTLED, CPU_WAIT_PER_LANE, SERVER_CORES
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.units import Unit

THROTTLED = Limit(
    value=0.25,
    unit=Unit.RATIO,
    because="a server that is held back in every fourth period of 100 ms meets it in most of its requests",
)
WORKING = Limit(
    value=0.1,
    unit=Unit.RATIO,
    because="an instance that uses under a tenth of a core while it executes waits for something else than a core, "
    "unless ten and more share each",
)
WAITING = Limit(
    value=0.2,
    unit=Unit.RATIO,
    because="where tasks wait for a processor in under a fifth of the time, the host is busy, but no task starves",
)
OCCUPIED = Limit(
    value=0.25,
    unit=Unit.RATIO,
    because="a process waits for a processor beside its executions, too: where it executes for less of the time, that "
    "may be most of what was measured",
)
TAIL = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="what one request in twenty meets is its 95th percentile; rarer than that, no objective shows it",
)
CHECK = Check(
    layer=Layer.HOST,
    scope=Scope.MODEL,
    limits={
        "queue": QUEUE,
        "busy": BUSY,
        "occupied": OCCUPIED,
        "host_cpu_busy": HOST_FULL,
        "cpu_throttled_share": THROTTLED,
        "cpu_per_lane": WORKING,
        "cpu_pressure": WAITING,
        "cpu_wait_per_lane": CPU_WAITED,
        "cpu_starved": CPU_STARVED,
        "cpu_short_tail": TAIL,
    },
    symptom="host-cpu-full",
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if is_idle(ledger, subject):
        return Quiet(because="the model is idle")
    if (stepped := _stepped(ledger, subject)) is not None:
        return stepped
    return _throughout(ledger, subject)


def _throughout(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide by the window as a whole."""
    starved = _is_starved(ledger, subject)
    if not starved and not ledger.at_least(QUEUE_SECONDS, subject, QUEUE):
        _waits_are_measured(ledger, subject)
        return Quiet(because="requests hardly wait for an instance")
    if ledger.evidence.is_engine(subject):
        return Quiet(because="an engine's row does not show its CPU use")
    full, held = ledger.as_alternative().at_least(HOST_CPU_BUSY, subject, HOST_FULL), _is_held_back(ledger, subject)
    if not (full or held or waits_for_processors(ledger, subject)):
        _waits_are_measured(ledger, subject)
        return Quiet(because="the processors have time left")
    if ledger.as_rival().is_set(ON_GPU, subject):
        return Quiet(because="the model executes on a GPU")
    if not starved and not ledger.at_least(INSTANCE_BUSY_SHARE, subject, BUSY):
        return Quiet(because="instances are idle while requests wait")
    if not ledger.at_least(CPU_PER_LANE, subject, WORKING):
        return Quiet(because="instances wait for something else than a processor")
    return _nobody_waits(ledger, subject, full, held) or _judge(ledger, subject, held)


def _nobody_waits(ledger: Ledger, subject: Subject, full: bool, held: bool) -> Quiet | None:
    """Return what shows that nobody waits for a processor; None where nothing does."""
    if ledger.ruled_out(CPU_WAIT_PER_LANE, subject, CPU_WAITED, above=False):
        return Quiet(because="its processes get a processor as soon as they want to run")
    if not full and _lasts_as_long(ledger, subject):
        return Quiet(because="executions last as long while the server gets all processors that it wants")
    if not held and ledger.ruled_out(CPU_PRESSURE, subject, WAITING, above=False):
        return Quiet(because="no task waits for a processor")
    return None


def _stepped(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that executions are longer just while the server is short of processors; None if not certain.

    Requests that meet it lose more than the mean does: what more than one in twenty meets is in the 95th percentile.
    """
    short, longer = (
        ledger.evidence.read(CPU_SHORT_SHARE, subject),
        ledger.evidence.read(CPU_SHORT_EXCESS_COMPUTE, subject),
    )
    if not short.value or longer.low is None or longer.low <= 0:
        return None
    queue = ledger.evidence.read(CPU_SHORT_EXCESS_QUEUE, subject)
    waits = queue if queue.low is not None and queue.low > 0 else None
    lost = longer if waits is None else longer + waits
    now = Reading.of(1.0 / short.value, Unit.RATIO, short.source)
    either = ledger.as_alternative()
    if not either.compare(CPU_SHORT_SHARE.name, short, TAIL) or not either.worthwhile(
        "lost_to_processors", subject, lost, now
    ):
        return None
    phase, _ = time_on(ledger, subject)
    each = [(phase, longer), *([(Phase.QUEUE, waits)] if waits else [])]
    return Fires(
        summary=f"the server does not get its processors for {Unit.RATIO.show(short.value)} of the time: requests take "
        f"{Unit.SECONDS.show((lost.value or 0.0) / short.value)} longer in {subject.model} just then",
        claims=tuple(Claim(stage=subject.model or "", phase=where, seconds=one.value or 0.0) for where, one in each),
        saved_seconds=lost.value or 0.0,
        suggestion=Suggestion(text=_advice(ledger, subject, _is_held_back(ledger, subject))),
    )


def _lasts_as_long(ledger: Ledger, subject: Subject) -> bool:
    """Return whether executions are certainly no longer, as far as matters, while the server lacks processors."""
    longer = ledger.evidence.read(CPU_SHORT_EXCESS_COMPUTE, subject)
    return longer.high is not None and longer.high < QUEUE.value


def _is_starved(ledger: Ledger, subject: Subject) -> bool:
    """Return whether executions themselves wait for a processor, as measured: then no request need wait for them."""
    if not waits_for_processors(ledger, subject) or ledger.evidence.read(ON_GPU, subject).value != 0:
        return False
    return (ledger.evidence.read(INSTANCE_BUSY_SHARE, subject).value or 0.0) >= OCCUPIED.value


def _waits_are_measured(ledger: Ledger, subject: Subject) -> None:
    """End the check as unknown where tasks wait for processors, and without its configuration not whether these do."""
    wait, pressure = ledger.evidence.read(CPU_WAIT_PER_LANE, subject), ledger.evidence.read(CPU_PRESSURE, subject).value
    unknown = wait.missing is Missing.NOT_EXPORTED and ledger.evidence.read(ON_GPU, subject).value is None
    if unknown and pressure is not None and pressure >= WAITING.value:
        raise Undecided(CPU_WAIT_PER_LANE.name, Missing.NOT_EXPORTED)


def _is_held_back(ledger: Ledger, subject: Subject) -> bool:
    share = ledger.read(CPU_THROTTLED, subject)
    return share.value is not None and ledger.as_alternative().compare(CPU_THROTTLED.name, share, THROTTLED)


def _judge(ledger: Ledger, subject: Subject, held: bool) -> Fires | Quiet:
    queue, wait = ledger.evidence.read(QUEUE_SECONDS, subject), ledger.evidence.read(CPU_WAIT_PER_LANE, subject)
    per_lane = min(ledger.need(CPU_PER_LANE, subject), 1.0)
    # Of an execution's time, what its instance did not get a core for.
    waited = ledger.need(EXECUTION_SECONDS, subject) * min(1.0 - per_lane, 1.0 if wait.value is None else wait.value)
    if _is_starved(ledger, subject):
        lost = queue + Reading.of(waited, Unit.SECONDS, wait.source, estimated=wait.estimated)
        if not ledger.worthwhile("processor_wait", subject, lost):
            return Quiet(because="the wait for a processor is a small part of the request")
    elif not ledger.worthwhile("queue_seconds", subject, queue):
        return Quiet(because="the queue is a small part of the request")
    seconds = queue.value or 0.0
    return Fires(
        summary=f"{_where(ledger, subject, held)}: an executing instance of {subject.model} gets about "
        f"{Unit.RATIO.show(per_lane)} "
        f"of a core, and {_harm(seconds, waited)}",
        claims=(
            Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=seconds),
            Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=waited),
        ),
        saved_seconds=seconds + waited,
        suggestion=Suggestion(text=_advice(ledger, subject, held)),
    )


def _where(ledger: Ledger, subject: Subject, held: bool) -> str:
    if held:
        return "its cgroup's quota holds the server back"
    full = (ledger.evidence.read(HOST_CPU_BUSY, subject).value or 0.0) >= HOST_FULL.value
    return "the processors are full" if full else "its processes wait for a processor"


def _harm(queue: float, waited: float) -> str:
    """Return what requests wait for longer: an instance, or inside its execution."""
    if queue >= QUEUE.value and queue >= waited:
        return f"requests wait {Unit.SECONDS.show(queue)} for one"
    return f"waits {Unit.SECONDS.show(waited)} of each execution for one"


def _advice(ledger: Ledger, subject: Subject, held: bool) -> str:
    cores = ledger.read(SERVER_CORES, subject).value
    has = f" (it has {Unit.COUNT.show(cores)})" if cores else ""
    first = (
        "raise the container's CPU limit" if held else f"give the server more cores{has} or take other work off them"
    )
    return f"{first}; no more instances of {subject.model} until then, and no more threads than cores ÷ instances"


_STARVED = {
    QUEUE_SECONDS: 6.7,
    INSTANCE_BUSY_SHARE: 0.98,
    EXECUTION_SECONDS: 0.113,
    HOST_CPU_BUSY: 0.99,
    CPU_THROTTLED: 0.0,
    CPU_PER_LANE: 0.3,
    CPU_PRESSURE: 0.97,
    SERVER_CORES: 2,
    ON_GPU: 0,
    REQUEST_SECONDS: 7.0,
}
CASES = (
    CheckCase.fires("when instances share too few cores", _STARVED),
    CheckCase.fires("when the quota is full on an idle host", {**_STARVED, HOST_CPU_BUSY: 0.3, CPU_THROTTLED: 0.8}),
    CheckCase.quiet("when others fill the host and instances sleep", {**_STARVED, CPU_PER_LANE: 0.02}),
    CheckCase.quiet("when no request waits on a busy host", {**_STARVED, QUEUE_SECONDS: 0.0005}),
    CheckCase.quiet("when the CPU has time left", {**_STARVED, HOST_CPU_BUSY: 0.5}),
    CheckCase.unknown(
        "when the server's processes were not seen",
        {k: v for k, v in _STARVED.items() if k not in (CPU_PER_LANE, CPU_PRESSURE, CPU_THROTTLED)},
    ),
)
