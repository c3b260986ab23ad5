"""The server's HTTP or gRPC frontend is the limit, not the models behind it.

## Looks for
In traces, requests that the frontend has read and does not pass on, or answers that it has and does not send. Without
traces: clients that wait long beyond the server's request time, while reads of the same port fail and those of the
metrics port succeed.

## Means
Decoding, encoding and dispatch share a few threads of one process. When these are busy, requests wait before the
models' clocks start, so no model shows it; rates stay flat whatever instances or GPUs are added.

## Rules out
- Queues of the models: their clocks start behind the frontend.
- Network and client (`client-or-transport-bound`): nothing is held in the frontend, and reads of its port succeed.
- Reads that are merely missing: those that were answered would have waited for the same threads, and did not.
- A load inside the window: asked for over the port, it holds one of its threads until it ends.
- A host without processors to spare (`host-cpu-starved`).

## Do
1. Restart with a larger `--http-thread-count` (default 8), or `--grpc-infer-thread-count` where the server's version
   has it.
2. Send binary tensors instead of JSON, fewer and larger requests, or use shared memory.
3. Then split traffic over several server processes: one process has one dispatcher per model.

## Sources
Triton server, command line (`--http-thread-count`). server#7650 (an ensemble capped at 8,500/s whose steps did
21,500/s: `--grpc-infer-thread-count` came of it), server#7706, server#4812. Statistics share the inference port's
threads: under a frontend limit that read fails first.
"""

from __future__ import annotations

from diagnostics.checks.check import Case, Check, Expected, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.client_or_transport_bound import MISSED, PORT_WAITS, is_long, port_lag_share
from diagnostics.checks.entries import ENOUGH_REQUESTS
from diagnostics.checks.gates import HOST_FULL
from diagnostics.evidence.ledger import WORTHWHILE_PART, WORTHWHILE_TIME, Ledger
from diagnostics.signals.callers import HANDLING_SECONDS, MISSED_READS, OUTSIDE_SECONDS
from diagnostics.signals.device import HOST_CPU_BUSY
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit
from diagnostics.window.lifecycle import Happened

CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.ENTRY,
    limits={
        "requests": ENOUGH_REQUESTS,
        "handling_seconds": WORTHWHILE_TIME,
        "handling_share": WORTHWHILE_PART,
        "missed_reads": MISSED,
        "port_lag_share": PORT_WAITS,
        "host_cpu_busy": HOST_FULL,
    },
)
_LOADING = (Happened.LOADED, Happened.RELOADED)


def diagnose(see: Ledger, on: Subject) -> Fires | Quiet:
    """Decide for one entry."""
    if not see.at_least(REQUESTS, on, ENOUGH_REQUESTS):
        return Quiet(because="too few requests to judge")
    held = see.read(HANDLING_SECONDS, on)
    seconds = held.value if held.value is not None and _holds(see, on, held) else _unanswered(see, on)
    if seconds is None:
        return Quiet(because="the frontend passes requests and answers on at once, as far as can be seen")
    if _loads(see, on):
        return Quiet(because="a load that is asked for over the port holds a thread, and what waits for that thread")
    if not see.at_most(HOST_CPU_BUSY, on, HOST_FULL):
        return Quiet(because="the host's processors are full: threads of the frontend wait for one")
    return Fires(
        summary=f"requests of {on.ensemble or on.model} wait {Unit.SECONDS.show(seconds)} in the server's frontend, "
        "outside every model",
        saved_seconds=seconds,
        suggestion=Suggestion(
            text="raise --http-thread-count (or --grpc-infer-thread-count) at a restart, send binary tensors, "
            "then split traffic over several server processes"
        ),
    )


def _loads(see: Ledger, on: Subject) -> bool:
    moments = see.evidence.moments(on.server)
    times = [change.at for change in see.evidence.changes(on.server) if change.kind in _LOADING]
    return bool(moments) and any(min(moments) < at <= max(moments) for at in times)


def _holds(see: Ledger, on: Subject, held: Reading) -> bool:
    whole = held + Reading.of(see.need(REQUEST_SECONDS, on), Unit.SECONDS, held.source)
    enough = see.compare(HANDLING_SECONDS.name, held, WORTHWHILE_TIME)
    return see.compare("handling_share", held / whole, WORTHWHILE_PART) and enough


def _unanswered(see: Ledger, on: Subject) -> float | None:
    """Return the time outside the server when its port leaves reads unanswered, else None."""
    missed = see.read(MISSED_READS, Subject(server=on.server))
    if missed.value is None or missed.value < MISSED.value:
        return None
    outside = see.read(OUTSIDE_SECONDS, on)
    if outside.missing is Missing.NOT_EXPORTED or not is_long(see, on, outside):
        return None
    lag = port_lag_share(see, on, outside)
    if lag.value is not None and not see.compare("port_lag_share", lag, PORT_WAITS):
        return None
    see.compare(MISSED_READS.name, missed, MISSED)
    return outside.value


_HELD = {
    REQUESTS: 1000,
    HANDLING_SECONDS: 0.06,
    REQUEST_SECONDS: 0.05,
    MISSED_READS: 0.0,
    HOST_CPU_BUSY: 0.5,
}
CASES = (
    Case(title="fires when the frontend holds requests that it has read", expect=Expected.FIRES, readings=_HELD),
    Case(
        title="fires when clients wait and its port leaves reads unanswered",
        expect=Expected.FIRES,
        readings={REQUESTS: 1000, OUTSIDE_SECONDS: 0.3, REQUEST_SECONDS: 0.05, MISSED_READS: 0.4, HOST_CPU_BUSY: 0.5},
    ),
    Case(
        title="is quiet when it passes everything on",
        expect=Expected.QUIET,
        readings={**_HELD, HANDLING_SECONDS: 0.0002},
    ),
    Case(
        title="is quiet when clients wait and every read succeeds",
        expect=Expected.QUIET,
        readings={REQUESTS: 1000, OUTSIDE_SECONDS: 0.3, REQUEST_SECONDS: 0.05, MISSED_READS: 0.0, HOST_CPU_BUSY: 0.5},
    ),
    Case(
        title="is quiet on a host without processors to spare",
        expect=Expected.QUIET,
        readings={**_HELD, HOST_CPU_BUSY: 0.99},
    ),
    Case(
        title="is unknown when the host's processors were not measured",
        expect=Expected.UNKNOWN,
        readings={signal: value for signal, value in _HELD.items() if signal is not HOST_CPU_BUSY},
    ),
)
