"""Clients wait much longer than the server works.

## Looks for
In client records or traces, requests take much longer than the server's own request time for the same requests. The
spans may belong to clients or to a service in front. The frontend answers at once. Or, by the
client's record, requests wait before they are sent. Meanwhile the server has free instances, and nothing waits there.

## Means
Time passes before a request reaches the server or after its answer leaves. Typical causes: network distance, large
payloads, JSON instead of binary, a proxy, one connection per request. Others are a busy client and a small pool of
connections. No setting of Triton shortens it.

## Rules out
- The server's frontend (`frontend-limited`). Reads of its port succeed as fast as those of the metrics port. No thread
  of the server's process is busy for half of the time. Without thread records, the time held in the frontend by traces
  is subtracted. One thread could then handle all of it in under half of the time.
- A host without spare CPU that clients share (`host-cpu-starved`).
- A frontend that is near its limit unseen. Above 1,000 requests per second, traces must show that it holds none.
- A client that calls an ensemble's members one by one (`external-orchestration`).
- Clients whose requests pile up in another model's queue: those keep them busy.
- Responses that wait for earlier ones in the server (`preserve_ordering` and several instances). No counter or span
  shows it. Where no configuration was read, executions must be too short and too even for such waits.
- A server that waits for a disk itself.
- Clients whose requests wait because the server, or another model on it, has no instance free for them.
- Other callers: if clients and server count different requests, nothing is reported.

## Do
1. Send the same request from the server's own host, with `curl -o /dev/null -w '%{time_total}'`. The time that
   disappears belongs to the network.
2. Send binary tensors (the HTTP binary extension or gRPC) instead of JSON. Keep connections open.
3. If requests wait before they are sent, raise the client's pool of connections or of requests under way.
4. On one host, use shared memory. Across hosts, put clients in the same zone, and compress only large text.

## Sources
Triton's protocol extensions for binary tensor data and shared memory. server#5095 (6.2 s around a 55 ms engine: nested
JSON lists). server#5335 (10/s from the office, 1/s from home), server#6243. Frontends at their limit in public reports
serve 3,000/s and more (server#7650, server#7706, server#4812).
"""

from __future__ import annotations

from math import inf

from diagnostics.anatomy.from_calls import is_orchestrated
from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.entries import ENOUGH_REQUESTS, busiest_of, waits
from diagnostics.checks.gates import (
    BUSY,
    COPIES,
    HOST_FULL,
    QUEUE,
    THREAD_FREE,
    busy_of,
    expect_any_order,
    may_be_short_of_threads,
    waits_in_copies,
)
from diagnostics.evidence.ledger import WORTHWHILE_PART, WORTHWHILE_TIME, Ledger, Limit, Undecided
from diagnostics.signals.callers import (
    CALLER_SECONDS,
    CLIENT_CONNECTIONS,
    CLIENT_DELAY_SECONDS,
    FRONTEND_BUSY,
    HANDLING_SECONDS,
    MISSED_READS,
    OUTSIDE_SECONDS,
    PORT_LAG,
    TRANSFER_SECONDS,
    WAITING_ELSEWHERE,
)
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.dispersion import EXECUTION_DISPERSION
from diagnostics.signals.executions import EXECUTION_SECONDS
from diagnostics.signals.host import COPY_CPU
from diagnostics.signals.settings import PRESERVES_ORDER
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import REQUEST_RATE, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

MISSED = Limit(
    value=0.05,
    unit=Unit.RATIO,
    because="a frontend that leaves one read in twenty unanswered is short of threads, whoever else is slow",
)
PORT_WAITS = Limit(
    value=0.25,
    unit=Unit.RATIO,
    because="a read of the inference port goes the same way as one of the metrics port: what it takes longer it waits "
    "for the frontend's threads, as requests do, if not always as long",
)
BUSY_FRONTEND = Limit(
    value=1000,
    unit=Unit.PER_SECOND,
    because="frontends at their limit in public reports serve 3,000/s and more; a third of that is no load for one",
)
ELSEWHERE = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="a client that holds most of its requests for a queue elsewhere spends its threads on that, and answers of "
    "other models wait for them until the queue is gone",
)
CHECK = Check(
    layer=Layer.CLIENT,
    scope=Scope.ENTRY,
    limits={
        "requests": ENOUGH_REQUESTS,
        "outside_seconds": WORTHWHILE_TIME,
        "outside_share": WORTHWHILE_PART,
        "waiting_elsewhere": ELSEWHERE,
        "client_delay_seconds": WORTHWHILE_TIME,
        "client_delay_share": WORTHWHILE_PART,
        "busy": BUSY,
        "missed_reads": MISSED,
        "port_lag_share": PORT_WAITS,
        "port_lag_upper_quartile": WORTHWHILE_TIME,
        "handled_at_once": THREAD_FREE,
        "frontend_busy": THREAD_FREE,
        "request_rate": BUSY_FRONTEND,
        "host_cpu_busy": HOST_FULL,
        "copy_cpu": COPIES,
    },
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one entry."""
    found = _after_sending(ledger, subject)
    return found if isinstance(found, Fires) else _before_sending(ledger, subject) or found


def _before_sending(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that requests wait in their clients for a connection; None where the server is their reason.

    Clients send no more while as many as they have connections for are under way: a server, its frontend or a way to it
    that is slow makes them wait, too.
    """
    outside = ledger.evidence.read(OUTSIDE_SECONDS, subject)
    if outside.value is None or outside.value >= WORTHWHILE_TIME.value:
        return None
    delay, either = ledger.evidence.read(CLIENT_DELAY_SECONDS, subject), ledger.as_alternative()
    server = ledger.evidence.read(REQUEST_SECONDS, subject)
    if not delay.value or server.value is None or not either.compare(CLIENT_DELAY_SECONDS.name, delay, WORTHWHILE_TIME):
        return None
    if not either.compare("client_delay_share", delay / (delay + server), WORTHWHILE_PART):
        return None
    models = [one for one in ledger.evidence.subjects(Scope.MODEL) if one.server == subject.server]
    if any(ledger.evidence.is_engine(one) for one in models) or any(waits(ledger, one, QUEUE) for one in models):
        return None
    if busiest_of(ledger.as_rival(), models, BUSY) or not ledger.at_most(HOST_CPU_BUSY, subject, HOST_FULL):
        return None
    connections = ledger.read(CLIENT_CONNECTIONS, subject).value
    most = f": no more than {Unit.COUNT.show(connections)} are under way then" if connections else ""
    return Fires(
        summary=f"requests to {subject.ensemble or subject.model} wait {Unit.SECONDS.show(delay.value)} in their "
        f"clients before they are sent{most}. The server has instances free",
        saved_seconds=delay.value,
        suggestion=Suggestion(
            text=(
                f"raise the clients' connections (now {Unit.COUNT.show(connections)})"
                if connections
                else "look at the clients' processors and pools of connections"
            )
            + "; no setting of Triton shortens this"
        ),
    )


def _after_sending(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide by what clients wait once their requests are sent."""
    if not ledger.at_least(REQUESTS, subject, ENOUGH_REQUESTS):
        return Quiet(because="too few requests to judge")
    if _is_part(ledger, subject):
        return Quiet(because="its callers call it as one stage of an ensemble")
    outside = _outside(ledger, subject)
    if outside.missing is Missing.NOT_EXPORTED:
        return Quiet(because="no client was observed, so only the server's own time is known")
    if quiet := _not_long_by_itself(ledger, subject, outside):
        return quiet
    if _threads_are_busy(ledger, subject):
        return Quiet(because="a thread of the server is busy, and requests may wait for it")
    if _frontend_holds(ledger, subject, outside):
        return Quiet(because="the server's frontend holds most of it")
    if ledger.ruled_out(MISSED_READS, Subject(server=subject.server), MISSED, above=True):
        return Quiet(because="the server's frontend leaves reads unanswered")
    if _port_waits(ledger, subject, outside):
        return Quiet(because="reads of the inference port wait as well: its frontend may hold requests")
    if not ledger.at_most(HOST_CPU_BUSY, subject, HOST_FULL):
        return Quiet(because="the host's processors are full, and clients may share them")
    _expect_no_wait_for_others(ledger, subject, outside)
    seconds = outside.value or 0.0
    return Fires(
        summary=f"clients of {subject.ensemble or subject.model} wait {Unit.SECONDS.show(seconds)} longer than the "
        "server takes" + _where(ledger, subject, seconds),
        saved_seconds=seconds,
        suggestion=Suggestion(
            text="send binary tensors over connections that stay open, from a client near the server, and look at the "
            "client's own processors; no setting of Triton shortens this"
        ),
    )


def _expect_no_wait_for_others(ledger: Ledger, subject: Subject, outside: Reading) -> None:
    """End the check as unknown where responses may wait in the server, in no counter: for a disk or for each other.

    A span ends before its answer waits for earlier ones. Only the configuration shows that, or executions too short and
    too even for it.
    """
    if waits_in_copies(ledger, subject):
        raise ledger.conflicting(COPY_CPU)
    ensemble = ledger.evidence.graph(subject.server).ensembles.get(subject.ensemble or subject.model or "")
    for model in ensemble.models() if ensemble else [subject.model]:
        on = Subject(server=subject.server, model=model)
        order = ledger.evidence.read(PRESERVES_ORDER, on)
        known = order.value is not None or ledger.evidence.server_kind(on) is not None
        if not known and _most_held_back(ledger, on) >= (outside.value or 0.0) / 2:
            raise Undecided(PRESERVES_ORDER.name, order.missing or Missing.NOT_EXPORTED)
        expect_any_order(ledger, on)


def _most_held_back(ledger: Ledger, on: Subject) -> float:
    """Return how many seconds a response waits for earlier ones on average at most, if they leave in order.

    It waits no longer than all that execute as it comes still take, together: rate · E[S²] ÷ 2 (mean residual life of
    a renewal process, times how many execute by Little's law). Infinite where executions were not seen to vary or not.
    """
    rate, each = ledger.evidence.read(REQUEST_RATE, on).value, ledger.evidence.read(EXECUTION_SECONDS, on).value
    varies = ledger.evidence.read(EXECUTION_DISPERSION, on).high
    if rate is None or each is None or varies is None:
        return inf
    return rate * (1.0 + varies) * each**2 / 2


def _where(ledger: Ledger, subject: Subject, seconds: float) -> str:
    """Return which part of it is seen at the server: bytes on their way, if they are most of it."""
    transfer = ledger.evidence.read(TRANSFER_SECONDS, subject).value or 0.0
    return f"; {Unit.SECONDS.show(transfer)} of it moves bytes in and out" if transfer >= seconds / 2 else ""


def _not_long_by_itself(ledger: Ledger, subject: Subject, outside: Reading) -> Quiet | None:
    """Return why clients do not wait outside all along, or for a queue's sake; None when they do by themselves."""
    if not is_long(ledger, subject, outside):
        return Quiet(because="clients wait hardly longer than the server takes")
    if outside.low is not None and outside.low < WORTHWHILE_TIME.value:
        return Quiet(because="at times clients wait hardly longer than the server takes")
    elsewhere = ledger.evidence.read(WAITING_ELSEWHERE, subject)
    if elsewhere.value is not None and ledger.as_rival().compare(WAITING_ELSEWHERE.name, elsewhere, ELSEWHERE):
        return Quiet(because="most requests of these clients wait for other models, and keep the clients busy")
    return None


def _threads_are_busy(ledger: Ledger, subject: Subject) -> bool:
    """Return whether the frontend may be short of threads: by their processor time, else by what traces show."""
    busy = busy_of(ledger, subject)
    if busy.value is not None:
        return ledger.as_rival().compare(FRONTEND_BUSY.name, busy, THREAD_FREE)
    return may_be_short_of_threads(ledger, subject)


def _frontend_holds(ledger: Ledger, subject: Subject, outside: Reading) -> bool:
    held = ledger.read(HANDLING_SECONDS, subject)
    if held.value is not None:
        return outside.value is not None and held.value >= outside.value / 2
    unseen = busy_of(ledger, subject).value is None
    if unseen and not ledger.at_most(REQUEST_RATE, subject, BUSY_FRONTEND):
        raise Undecided(HANDLING_SECONDS.name, held.missing or Missing.NOT_EXPORTED)
    return False


def port_lag_share(ledger: Ledger, subject: Subject, outside: Reading) -> Reading:
    """Return how much longer the inference port keeps a read than the metrics port, ÷ what clients wait outside.

    Absent where that was not recorded, or clients do not wait.
    """
    lag = ledger.evidence.read(PORT_LAG, Subject(server=subject.server))
    if lag.value is None or not outside.value:
        return Reading.unknown(lag.missing or Missing.IDLE, Unit.RATIO, lag.source)
    return Reading.of(lag.value / outside.value, Unit.RATIO, lag.source, events=lag.events)


def _port_waits(ledger: Ledger, subject: Subject, outside: Reading) -> bool:
    """Return whether reads of the inference port are slow, too; where that was not recorded, it counts as no.

    A busy thread keeps as many of them waiting as it is busy for, yet each for as long as one or two requests take:
    many waits of some length are a busy thread's, however long a line the requests stand in.
    """
    share = port_lag_share(ledger, subject, outside)
    if share.value is None or ledger.as_rival().compare("port_lag_share", share, PORT_WAITS):
        return share.value is not None
    lag = ledger.evidence.read(PORT_LAG, Subject(server=subject.server))
    if busy_of(ledger, subject).value is not None or lag.high is None:
        return False
    upper = Reading.of(lag.high, Unit.SECONDS, lag.source, events=lag.events)
    return ledger.as_rival().compare("port_lag_upper_quartile", upper, WORTHWHILE_TIME)


def _is_part(ledger: Ledger, subject: Subject) -> bool:
    callers = ledger.evidence.graph(subject.server).callers(subject.model or "")
    return any(
        is_orchestrated(ledger.evidence, Subject(server=subject.server, ensemble=caller.name)) for caller in callers
    )


def _outside(ledger: Ledger, subject: Subject) -> Reading:
    """Return what clients wait beyond the server's time; where none is seen, what a traced service in front adds."""
    outside = ledger.read(OUTSIDE_SECONDS, subject)
    return ledger.read(CALLER_SECONDS, subject) if outside.missing is Missing.NOT_EXPORTED else outside


def is_long(ledger: Ledger, subject: Subject, outside: Reading) -> bool:
    """Return whether time outside the server is worth a change: of what the client sees, not of the server's time."""
    server = ledger.need(REQUEST_SECONDS, subject)
    whole = outside + Reading.of(server, Unit.SECONDS, outside.source)
    enough = ledger.compare(OUTSIDE_SECONDS.name, outside, WORTHWHILE_TIME)
    return ledger.compare("outside_share", outside / whole, WORTHWHILE_PART) and enough


_FAR = {
    REQUESTS: 1000,
    OUTSIDE_SECONDS: 0.08,
    REQUEST_SECONDS: 0.05,
    HANDLING_SECONDS: 0.0002,
    PRESERVES_ORDER: 0,
    MISSED_READS: 0.0,
    HOST_CPU_BUSY: 0.3,
}
CASES = (
    CheckCase.fires("when most of a client's time passes outside", _FAR),
    CheckCase.quiet("when clients wait as long as the server takes", {**_FAR, OUTSIDE_SECONDS: 0.001}),
    CheckCase.quiet("when the frontend holds the requests", {**_FAR, HANDLING_SECONDS: 0.075}),
    CheckCase.quiet("on a host without spare CPU", {**_FAR, HOST_CPU_BUSY: 0.99}),
    CheckCase.unknown(
        "without traces at a rate that may exceed the frontend",
        {signal: value for signal, value in {**_FAR, REQUEST_RATE: 6000}.items() if signal is not HANDLING_SECONDS},
    ),
    CheckCase.unknown(
        "when the host's CPU was not measured",
        {signal: value for signal, value in _FAR.items() if signal is not HOST_CPU_BUSY},
    ),
)
