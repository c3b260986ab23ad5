"""What the threads of a server's frontend are seen to do, for the checks that tell its waits from those of clients."""

from __future__ import annotations

from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.callers import HANDLING_SECONDS, TRANSFER_SECONDS
from diagnostics.signals.reading import Missing, Reading
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.threads import FRONTEND_BUSY
from diagnostics.signals.triton import REQUEST_RATE
from diagnostics.units import Unit

THREAD_BUSY = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="before one thread that is busy for so long a request spends over three times what it takes to handle it "
    "(M/M/1: 1 ÷ (1 − 0.7))",
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


def busy_of(see: Ledger, on: Subject) -> Reading:
    """Return how busy a thread of the frontend is at least."""
    return see.evidence.read(FRONTEND_BUSY, Subject(server=on.server))


def line_seconds(see: Ledger, on: Subject) -> Reading:
    """Return the mean time of a request with a thread so busy: ρ ÷ (1 − ρ) of them are there, λ come a second.

    M/M/1 and Little's law. λ is the rate of all that the server is asked for, so where several threads share it this
    is less than the truth.
    """
    busy = busy_of(see, on)
    rates = [
        see.evidence.read(REQUEST_RATE, one).value or 0.0
        for one in see.evidence.subjects(Scope.ENTRY)
        if one.server == on.server
    ]
    if busy.value is None or not sum(rates):
        return Reading.unknown(busy.missing or Missing.IDLE, Unit.SECONDS, busy.source)
    share = min(busy.value, _FULLEST)
    return Reading.of(share / (1 - share) / sum(rates), Unit.SECONDS, busy.source, estimated=True)


def around_models(see: Ledger, on: Subject) -> Reading:
    """Return a traced request's time in the frontend, its bytes' way in and out included."""
    return see.read(HANDLING_SECONDS, on) + see.read(TRANSFER_SECONDS, on)


def may_be_short_of_threads(see: Ledger, on: Subject) -> bool:
    """Return whether a thread of the frontend may keep requests waiting, as far as traces can tell.

    A request that was read is handled at once on the thread that read it. If handling all of them kept one thread busy
    for half of the time, a frontend of one thread may be short of it.
    """
    held, rate = see.evidence.read(HANDLING_SECONDS, on), see.evidence.read(REQUEST_RATE, on)
    if held.value is None or rate.value is None:
        return False
    at_once = Reading.of(held.value * rate.value, Unit.RATIO, held.source, events=held.events)
    return see.compare("handled_at_once", at_once, THREAD_FREE)
