"""The server's HTTP or gRPC frontend is the limit, not the models behind it.

## Looks for
A thread of the server's own process is busy while models execute on other threads. Clients, or their requests in
traces, spend long outside the models. In traces: requests that the frontend has read but not passed on, or answers it
has not sent. Without either: clients wait far longer than the server's request time. Reads of the same port fail while
those of the metrics port succeed.

## Means
Decoding, encoding and dispatch share a few threads of one process. When these are busy, requests wait before the
models' clocks start, so no model shows it. Rates stay flat, however many instances or GPUs you add. Traces show little
of the wait: a request waits unread in its connection, or half read while others are served.

## Rules out
- Queues of the models: their clocks start after the frontend.
- Network and client (`client-or-transport-bound`): the frontend holds nothing, and reads of its port succeed.
- Reads that are only missing: those that succeeded used the same threads and did not wait.
- A load inside the window: a load over this port holds one of its threads until it ends.
- A busy thread that explains less than half of the wait by queueing theory: the rest has another cause.
- A host without spare CPU (`host-cpu-starved`), unless its threads get a core as soon as they want one.

## Do
1. Send binary tensors instead of JSON, or use shared memory: this reduces the work, whatever the number of threads.
2. Restart with a larger `--http-thread-count` (default 8), or `--grpc-infer-thread-count` if your version has it. This
   helps if a thread is busy, not if reading one request takes long.
3. Then split traffic over several server processes: one process has one dispatcher per model.

## Sources
Triton server, command line (`--http-thread-count`). server#7650 (an ensemble capped at 8,500/s whose steps reached
21,500/s: `--grpc-infer-thread-count` resulted from it), server#7706, server#4812. Statistics share the inference port's
threads: with a full frontend, that read fails first. M/M/1 and Little's law for the queue of a busy thread.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.client_or_transport_bound import MISSED, PORT_WAITS, is_long, port_lag_share
from diagnostics.checks.entries import ENOUGH_REQUESTS
from diagnostics.checks.gates import (
    CPU_WAITED,
    HOST_FULL,
    MOST_OF_IT,
    THREAD_BUSY,
    THREAD_FREE,
    around_models,
    busy_of,
    line_seconds,
)
from diagnostics.evidence.ledger import WORTHWHILE_PART, WORTHWHILE_TIME, Ledger
from diagnostics.signals.callers import (
    FRONTEND_BUSY,
    FRONTEND_CPU_WAIT,
    HANDLING_SECONDS,
    MISSED_READS,
    OUTSIDE_SECONDS,
)
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import REQUEST_RATE, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.ENTRY,
    limits={
        "requests": ENOUGH_REQUESTS,
        "frontend_busy": THREAD_BUSY,
        "outside_seconds": WORTHWHILE_TIME,
        "outside_share": WORTHWHILE_PART,
        "line_share": MOST_OF_IT,
        "frontend_cpu_wait": CPU_WAITED,
        "handling_seconds": WORTHWHILE_TIME,
        "handling_share": WORTHWHILE_PART,
        "missed_reads": MISSED,
        "port_lag_share": PORT_WAITS,
        "host_cpu_busy": HOST_FULL,
    },
)
_LOADING = (Happened.LOADED, Happened.RELOADED)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry."""
    if not ledger.at_least(REQUESTS, subject, ENOUGH_REQUESTS):
        return Quiet(because="too few requests to judge")
    seconds = _lined_up(ledger, subject)
    if short := seconds is not None:
        where = (
            "for a thread of the server's frontend that is busy "
            f"{Unit.RATIO.show(busy_of(ledger, subject).value)} of the time"
        )
    else:
        seconds, where = _held(ledger, subject), "in the server's frontend"
    if seconds is None:
        return Quiet(because="the frontend passes requests and answers on at once, as far as can be seen")
    if _loads(ledger, subject):
        return Quiet(because="a load that is asked for over the port holds a thread, and what waits for that thread")
    if not ledger.at_most(HOST_CPU_BUSY, subject, HOST_FULL) and not (short and _runs_at_once(ledger, subject)):
        return Quiet(because="the host's processors are full: threads of the frontend wait for one")
    return Fires(
        summary=f"requests of {subject.ensemble or subject.model} wait {Unit.SECONDS.show(seconds)} {where}, outside "
        "every model",
        saved_seconds=seconds,
        suggestion=Suggestion(text=_advice(ledger, subject)),
    )


def _lined_up(ledger: Ledger, subject: Subject) -> float | None:
    """Return what requests wait for a busy thread, at most what is seen; None where none is busy or nothing is seen."""
    busy, ledger = busy_of(ledger, subject), ledger.as_alternative()
    if busy.value is None or not ledger.compare(FRONTEND_BUSY.name, busy, THREAD_BUSY):
        return None
    around = _around(ledger, subject)
    if around.value is None or not is_long(ledger, subject, around):
        return None
    line = line_seconds(ledger, subject)
    if not ledger.compare("line_share", line / around, MOST_OF_IT):
        return None
    return min(line.value or 0.0, around.value)


def _around(ledger: Ledger, subject: Subject) -> Reading:
    """Return what clients wait beyond the server's time; where none is seen, what traces show around the models."""
    outside = ledger.read(OUTSIDE_SECONDS, subject)
    return around_models(ledger, subject) if outside.value is None else outside


def _held(ledger: Ledger, subject: Subject) -> float | None:
    held = ledger.read(HANDLING_SECONDS, subject)
    return held.value if held.value is not None and _holds(ledger, subject, held) else _unanswered(ledger, subject)


def _runs_at_once(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the busy thread gets a processor as soon as it wants to run, though others fill them."""
    wait = ledger.evidence.read(FRONTEND_CPU_WAIT, Subject(server=subject.server))
    return wait.value is not None and ledger.compare(FRONTEND_CPU_WAIT.name, wait, CPU_WAITED, at_least=False)


def _advice(ledger: Ledger, subject: Subject) -> str:
    busy = busy_of(ledger, subject).value
    if busy is not None and busy < THREAD_FREE.value:
        return (
            "send binary tensors instead of JSON: no thread is busy, so each request takes this long to read or write"
        )
    return (
        "raise --http-thread-count (or --grpc-infer-thread-count) at a restart, send binary tensors instead of JSON, "
        "then split traffic over several server processes"
    )


def _loads(ledger: Ledger, subject: Subject) -> bool:
    moments = ledger.evidence.moments(subject.server)
    times = [change.at for change in ledger.evidence.changes(subject.server) if change.kind in _LOADING]
    return bool(moments) and any(min(moments) < at <= max(moments) for at in times)


def _holds(ledger: Ledger, subject: Subject, held: Reading) -> bool:
    whole = held + Reading.of(ledger.need(REQUEST_SECONDS, subject), Unit.SECONDS, held.source)
    either = ledger.as_alternative()
    enough = either.compare(HANDLING_SECONDS.name, held, WORTHWHILE_TIME)
    return either.compare("handling_share", held / whole, WORTHWHILE_PART) and enough


def _unanswered(ledger: Ledger, subject: Subject) -> float | None:
    """Return the time outside the server when its port leaves reads unanswered, else None."""
    missed = ledger.read(MISSED_READS, Subject(server=subject.server))
    if missed.value is None or missed.value < MISSED.value:
        return None
    outside = ledger.read(OUTSIDE_SECONDS, subject)
    if outside.missing is Missing.NOT_EXPORTED or not is_long(ledger, subject, outside):
        return None
    lag = port_lag_share(ledger, subject, outside)
    if lag.value is not None and not ledger.compare("port_lag_share", lag, PORT_WAITS):
        return None
    ledger.compare(MISSED_READS.name, missed, MISSED)
    return outside.value


_HELD = {
    REQUESTS: 1000,
    HANDLING_SECONDS: 0.06,
    REQUEST_SECONDS: 0.05,
    MISSED_READS: 0.0,
    HOST_CPU_BUSY: 0.5,
}
_SHORT = {
    REQUESTS: 1000,
    REQUEST_RATE: 80,
    OUTSIDE_SECONDS: 0.06,
    REQUEST_SECONDS: 0.12,
    FRONTEND_BUSY: 0.8,
    MISSED_READS: 0.0,
    HOST_CPU_BUSY: 0.5,
}
CASES = (
    CheckCase.fires("when the frontend holds requests that it has read", _HELD),
    CheckCase.fires(
        "when clients wait and its port leaves reads unanswered",
        {REQUESTS: 1000, OUTSIDE_SECONDS: 0.3, REQUEST_SECONDS: 0.05, MISSED_READS: 0.4, HOST_CPU_BUSY: 0.5},
    ),
    CheckCase.fires("when clients wait for a busy thread", _SHORT),
    CheckCase.quiet("when the stage passes everything on", {**_HELD, HANDLING_SECONDS: 0.0002}),
    CheckCase.quiet("when a busy thread cannot explain so long a wait", {**_SHORT, OUTSIDE_SECONDS: 0.5}),
    CheckCase.unknown(
        "when the host's CPU was not measured",
        {signal: value for signal, value in _HELD.items() if signal is not HOST_CPU_BUSY},
    ),
)
