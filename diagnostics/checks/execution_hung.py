"""Executions started and never ended.

## Looks for
Requests wait at every read up to the last one, and no execution of the model ends or fails. This lasts many times as
long as an execution takes. Or requests wait although instances execute nothing. A process uses no CPU time or is gone,
or fewer executions run than there are instances. Or failures come evenly, at most one per second and instance, at any
load. An instance fails like this when its process is gone.

## Means
An instance is stuck inside its backend. Typical causes: a deadlock, a lost collective of a multi-GPU engine, a call
without a timeout, a stopped process. Or its process was killed. Triton 24.10 does not restart it, logs nothing, and
fails about one request per second on it. If all instances are stuck, counters stand still, and a dashboard of rates
shows no traffic instead of a fault. If some are stuck, the others serve, and requests wait as if there were fewer
instances.

## Rules out
- An idle model: nothing waits.
- A load: a freshly loaded version may initialise for a long time (`cold-start`, `model-reload-stall`).
- Executions that are long by nature: the limit is a multiple of their own length.
- A pause that ended inside the window (`scheduler-stall`).
- Instances without work: an idle one takes the next request at once, so nothing waits.
- The rate limiter, which keeps some instances idle (`single-instance-serialization`).

## Do
1. Before anything else, dump stacks: `py-spy dump --pid STUB` for the Python stubs,
   `gdb -p SERVER -batch -ex 'thread apply all bt'` for the server. Check `dmesg | grep Xid` for a GPU error and
   `dmesg | grep -i oom` for a killed process.
2. To serve again, reload the model (`curl -X POST HOST:8000/v2/repository/models/NAME/load`) or restart the replica.
3. Give calls inside the model a timeout, and the queue one too (`default_timeout_microseconds`). Clients then get an
   error instead of waiting.
4. If processes cannot be seen, count them on the server's machine: `pgrep -fc triton_python_backend_stub`.

## Sources
server#5927 (counters move only when a request ends: stalls show in the pending gauge). Triton core, `infer_stats.cc`.
python_backend, `python_be.cc`: a request fails if its process shows no activity for a second. Measured on 24.10: of two
instances, one never returned and one was killed.
"""

from __future__ import annotations

import msgspec

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import (
    Check,
    CheckCase,
    Claim,
    Fires,
    Layer,
    Quiet,
    Remedy,
    Severity,
    Suggestion,
)
from diagnostics.checks.entries import FAILED_PART
from diagnostics.checks.gates import QUEUE, Gate, first_rival, host_is_full
from diagnostics.checks.instances import queue_of
from diagnostics.evidence.capacity import stage_load
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.capacity import IDLE_STUBS, INSTANCE_PROCESSES, LOST_INSTANCES
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.flow import FAILED_REQUESTS, FAILED_SHARE
from diagnostics.signals.gone_processes import GONE_PROCESSES
from diagnostics.signals.settings import BATCH_DELAY, DYNAMIC_BATCHING, INSTANCES, MAX_BATCH_SIZE
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.stalls import LIFETIME_EXECUTION_SECONDS, LOADS, STANDSTILL_SECONDS, WAITING_NOW
from diagnostics.signals.triton import ARRIVAL_RATE, CLIENT_BATCH_SIZE, QUEUE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.queueing import predict
from diagnostics.units import Unit

STILL = Limit(
    value=10.0,
    unit=Unit.SECONDS,
    because="the scheduler's own pauses end after half a second, garbage collectors' and page faults' within seconds",
)
MANY = Limit(
    value=20.0,
    unit=Unit.COUNT,
    because="an execution of twenty times the mean is one in 500 million where times are exponential",
)
ONE = Limit(value=1, unit=Unit.COUNT, because="an instance that executes nothing is lost whole")
NONE_IDLE = Limit(value=0, unit=Unit.COUNT, because="where every process works, none is hung or gone")
_SOME_LEFT = (
    Gate(
        lambda ledger, subject: not ledger.at_least(QUEUE_SECONDS, subject, QUEUE),
        "requests hardly wait for an instance",
    ),
    Gate(
        lambda ledger, subject: not ledger.at_least(LOST_INSTANCES, subject, ONE),
        "no instance rests while requests wait",
    ),
    Gate(host_is_full, "the host's processors are full: executions begin late"),
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={
        "standstill_seconds": STILL,
        "standstill_executions": MANY,
        "lost_instances": ONE,
        "queue": QUEUE,
        "failed_share": FAILED_PART,
    },
    severity=Severity.CRITICAL,
    symptom="model-stuck",
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    still = ledger.read(STANDSTILL_SECONDS, subject)
    if still.missing is not None:
        if ledger.evidence.read(REQUESTS, subject).value:
            return _of_several(ledger, subject)
        raise Undecided(STANDSTILL_SECONDS.name, still.missing)
    since = _since(still)
    if (since.value or 0.0) < STILL.value and (ledger.evidence.read(LOST_INSTANCES, subject).value or 0.0) >= ONE.value:
        return _of_several(ledger, subject)
    if not ledger.as_alternative().compare(STANDSTILL_SECONDS.name, since, STILL):
        return _of_several(ledger, subject)
    if ledger.evidence.read(LOADS, subject).value:
        return Quiet(because="the version was loaded inside the window and may still initialise")
    usual = _usual(ledger, subject)
    if not ledger.compare("standstill_executions", (still / usual).with_unit(Unit.COUNT), MANY):
        return Quiet(because="executions of this model take that long")
    return _finding(ledger, subject, since, usual)


def _since(still: Reading) -> Reading:
    """Return for how long nothing has ended: where requests waited from the first read on, since the last inference."""
    longest = max(still.value or 0.0, still.high or 0.0)
    return Reading.of(longest, Unit.SECONDS, still.source, low=still.low, estimated=still.estimated)


def _usual(ledger: Ledger, subject: Subject) -> Reading:
    """Return what an execution takes: in the window, else since the load.

    Raises:
        Undecided: none was ever seen to end.

    """
    for signal in (EXECUTION_SECONDS, LIFETIME_EXECUTION_SECONDS):
        usual = ledger.evidence.read(signal, subject)
        if usual.value is not None:
            return usual
    raise Undecided(EXECUTION_SECONDS.name, usual.missing or Missing.NOT_EXPORTED)


def _of_several(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide whether some instances execute nothing while others serve, or all fail what they are given."""
    if ledger.evidence.read(GONE_PROCESSES, subject).value:
        return _gone(ledger, subject)
    if (ledger.evidence.read(INSTANCES, subject).value or 0.0) < 2:
        return Quiet(because="nothing waits, or executions end")
    if quiet := first_rival(ledger, subject, _SOME_LEFT):
        return quiet
    if ledger.ruled_out(IDLE_STUBS, subject, NONE_IDLE, above=False):
        return Quiet(because="the processes of all instances work")
    return _lost(ledger, subject)


def _gone(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for instances that fail a request a second each, as those do whose process is gone."""
    if ledger.evidence.read(IDLE_STUBS, subject).value == NONE_IDLE.value:
        return Quiet(because="the processes of all instances work")
    ledger.at_least(GONE_PROCESSES, subject, ONE)
    gone, instances = ledger.need(GONE_PROCESSES, subject), ledger.need(INSTANCES, subject)
    if gone >= instances:
        return _nothing_served(ledger, subject)
    if not first_rival(ledger.as_alternative(), subject, _SOME_LEFT[:2]):
        return _lost(ledger, subject)
    processes = ledger.evidence.read(INSTANCE_PROCESSES, subject).value
    if processes is None or processes >= instances:
        return Quiet(
            because="requests hardly wait, and its processes cannot be counted: requests may fail by themselves"
        )
    share = ledger.read(FAILED_SHARE, subject)
    if not ledger.compare(FAILED_SHARE.name, share, FAILED_PART):
        return Quiet(because="hardly any request fails")
    return Fires(
        summary=f"{gone:.0f} of {instances:.0f} instances of {subject.model} serve nothing (its process is gone): "
        f"each fails a request a second, {Unit.RATIO.show(share.value)} of all",
        failed_share=share.value or 0.0,
        suggestion=_reload(subject),
    )


def _lost(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide what those that are left make requests wait."""
    lost = ledger.need(LOST_INSTANCES, subject)
    queue, load = ledger.evidence.read(QUEUE_SECONDS, subject), stage_load(ledger, subject)
    saved, gone = queue - queue_of(predict(load)), ledger.evidence.read(GONE_PROCESSES, subject).value
    if ledger.evidence.read(IDLE_STUBS, subject).value is None and not gone:
        saved = msgspec.structs.replace(saved, estimated=True)  # their number may have been lowered since it was read
    if not ledger.worthwhile("queue_with_all_instances_saves", subject, saved):
        return Quiet(because="requests would wait about as long with all instances")
    show, processes = Unit.SECONDS.show, ledger.evidence.read(INSTANCE_PROCESSES, subject).value
    what = "its process is gone" if gone else "hung, or its process is gone"
    if processes is not None:
        what = "its process does nothing" if processes >= load.instances else "its process is gone"
    return Fires(
        summary=f"{lost:.0f} of {load.instances} instances of {subject.model} serve nothing ({what}): requests wait "
        f"{show(ledger.need(QUEUE_SECONDS, subject))} for {show(ledger.need(EXECUTION_SECONDS, subject))} of work",
        claims=(Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=saved.value or 0.0),),
        saved_seconds=saved.value or 0.0,
        failed_share=ledger.evidence.read(FAILED_SHARE, subject).value or 0.0,
        suggestion=_reload(subject),
    )


def _reload(subject: Subject) -> Suggestion:
    text = (
        f"reload {subject.model} or restart the replica; before that, take stacks of its processes (py-spy dump --pid)"
    )
    return Suggestion(text=text, remedy=Remedy.MITIGATE)


def _nothing_served(ledger: Ledger, subject: Subject) -> Fires:
    failed = ledger.need(FAILED_REQUESTS, subject)
    lost = failed + (ledger.evidence.read(WAITING_NOW, subject).value or 0.0)
    return Fires(
        summary=f"{subject.model} serves nothing (its processes are gone): each instance fails a request a second, "
        f"{Unit.COUNT.show(failed)} in the window, and the others wait",
        failed_share=lost / (lost + (ledger.evidence.read(REQUESTS, subject).value or 0.0)),
        suggestion=_reload(subject),
    )


def _finding(ledger: Ledger, subject: Subject, still: Reading, usual: Reading) -> Fires:
    waiting = ledger.need(WAITING_NOW, subject)
    ended = ledger.evidence.read(REQUESTS, subject).value or 0.0
    return Fires(
        summary=f"no execution of {subject.model} has ended for {Unit.SECONDS.show(still.value)}, usually they take "
        f"{Unit.SECONDS.show(usual.value)}; {waiting:.0f} requests wait",
        failed_share=waiting / max(waiting + ended, 1.0),
        suggestion=Suggestion(
            text=f"take stacks of the stuck instances of {subject.model}, then reload the model or restart the "
            "replica; the fix is a timeout for what the model calls",
            remedy=Remedy.MITIGATE,
        ),
    )


_STUCK = {
    STANDSTILL_SECONDS: 40,
    WAITING_NOW: 200,
    LOADS: 0,
    EXECUTION_SECONDS: 0.02,
    REQUESTS: 800,
}
_ONE_LOST = {
    STANDSTILL_SECONDS: 0,
    QUEUE_SECONDS: 0.09,
    EXECUTION_SECONDS: 0.025,
    REQUESTS: 1000,
    REQUEST_SECONDS: 0.12,
    INSTANCES: 2,
    LOST_INSTANCES: 1,
    IDLE_STUBS: 1,
    INSTANCE_PROCESSES: 2,
    ARRIVAL_RATE: 34,
    FAILED_SHARE: 0,
    MAX_BATCH_SIZE: 1,
    DYNAMIC_BATCHING: 0,
    BATCH_DELAY: 0,
    CLIENT_BATCH_SIZE: 1,
}
CASES = (
    CheckCase.fires("when requests wait and nothing ends", _STUCK),
    CheckCase.fires("when one of two processes does nothing", _ONE_LOST),
    CheckCase.quiet("when nothing waits", {**_STUCK, STANDSTILL_SECONDS: 0}),
    CheckCase.quiet("when executions take that long", {**_STUCK, EXECUTION_SECONDS: 4.0}),
    CheckCase.quiet("while a version initialises", {**_STUCK, LOADS: 1}),
    CheckCase.unknown("when no execution was ever seen to end", {STANDSTILL_SECONDS: 40, WAITING_NOW: 3, LOADS: 0}),
)
