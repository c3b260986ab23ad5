"""Sends requests when they are due, all from one thread, and notes what came of each.

asyncio's usual selectors round timeouts up to milliseconds; select() takes microseconds, so that a schedule is kept
to a fraction of one.
"""

from __future__ import annotations

import asyncio
import gc
import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from diagnostics.bench.block import RequestResult
from diagnostics.loadgen.load import LoadProgress, SentRequest
from diagnostics.loadgen.transport import Reply, Transport

# After so many failures in a row without any answer it is asked whether anybody is there.
UNANSWERED_IN_A_ROW = 10
_PAUSE = 0.05
# How often a schedule looks whether it was stopped.
_LOOK_SECONDS = 0.5
Count = Callable[[Reply], int | None]


def no_tokens(reply: Reply) -> int | None:  # noqa: ARG001
    """Count no tokens."""
    return None


def event_loop() -> asyncio.AbstractEventLoop:
    """Return a loop whose timers are exact to microseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """All answers of a run, warm-up included, and when it began on the steady clock; `gone` if nobody answered."""

    start: float
    answers: tuple[RequestResult, ...]
    gone: bool
    client_busy: float


@dataclass(slots=True)
class Pacer:
    """One run of a load.

    Attributes:
        transport: what sends.
        variants: how many prepared requests there are.
        seconds: during which requests become due, warm-up included.
        clients: of a closed loop; in an open loop, requests that are out at once at most.
        count: returns the tokens of a reply; None where they cannot be determined.
        offset: which prepared request is sent first, so that blocks differ.
        patient: whether load goes on where nobody answers any more.

    """

    transport: Transport
    variants: int
    seconds: float
    clients: int
    count: Count = no_tokens
    offset: int = 0
    patient: bool = False
    _answers: list[RequestResult] = field(default_factory=list)
    _unanswered: int = 0
    _gone: bool = False
    _stopped: bool = False
    _start: float = 0.0

    async def run(self, arrivals: Sequence[float] | None) -> Sent:
        """Send the load and return what came of it, once all is answered.

        Args:
            arrivals: seconds after the start at which requests are due; None for a closed loop.

        """
        busy, self._start = time.process_time(), time.perf_counter()
        if arrivals is None:
            await asyncio.gather(*(self._client(number) for number in range(self.clients)))
        else:
            await self._schedule(arrivals)
        took, used = time.perf_counter() - self._start, time.process_time() - busy
        return Sent(
            start=self._start, answers=tuple(self._answers), gone=self._gone, client_busy=used / max(took, 1e-9)
        )

    def stop(self) -> None:
        """Send nothing more, from whatever thread; `run` then returns once what is out was answered."""
        self._stopped = True

    def progress(self) -> LoadProgress:
        """Return how far the run is."""
        elapsed = time.perf_counter() - self._start if self._start else 0.0
        errors = sum(not one.ok for one in self._answers)
        return LoadProgress(elapsed=elapsed, answered=len(self._answers), errors=errors)

    def records(self, model: str, clock: float) -> list[SentRequest]:
        """Return what was sent until now, in order; `clock` is what makes the steady clock's seconds Unix seconds."""
        return [sent_request(one, model, clock) for one in sorted(self._answers, key=lambda one: one.sent)]

    async def _client(self, number: int) -> None:
        while (due := time.perf_counter()) - self._start < self.seconds and not (self._gone or self._stopped):
            await self._ask(number, due)
            number += self.clients
            if self._unanswered:
                await asyncio.sleep(_PAUSE)

    async def _schedule(self, arrivals: Sequence[float]) -> None:
        free = asyncio.Semaphore(self.clients)
        async with asyncio.TaskGroup() as group:
            for number, offset in enumerate(arrivals):
                due = self._start + offset
                while (left := due - time.perf_counter()) > 0 and not self._stopped:
                    await asyncio.sleep(min(left, _LOOK_SECONDS))
                # Once all connections are taken a request waits here, and its latency counts from when it was due.
                await free.acquire()
                if self._gone or self._stopped:
                    return
                group.create_task(self._ask(number, due)).add_done_callback(lambda _: free.release())

    async def _ask(self, number: int, due: float) -> None:
        sent = time.perf_counter()
        reply = await self.transport.ask((number + self.offset) % self.variants)
        end = time.perf_counter()
        self._answers.append(
            RequestResult(
                due=due,
                sent=sent,
                first=reply.first,
                end=end,
                ok=reply.ok,
                code=reply.code,
                tokens=self.count(reply) if reply.ok else None,
                error=reply.error,
            )
        )
        await self._doubt(reply)

    async def _doubt(self, reply: Reply) -> None:
        """Ask whether anybody is there, every so many failures without an answer: load alone may cut connections."""
        self._unanswered = 0 if reply.code else self._unanswered + 1
        if not self.patient and self._unanswered and self._unanswered % UNANSWERED_IN_A_ROW == 0:
            self._gone = self._gone or not await self.transport.alive()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the collector of garbage from stopping the clock in the middle of a run."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def sent_request(one: RequestResult, model: str, clock: float) -> SentRequest:
    """Return a request as a capture's `client.jsonl` has it; `clock` is what makes steady seconds Unix seconds."""
    return SentRequest(
        t=clock + one.sent,
        model=model,
        ms=(one.end - one.sent) * 1e3,
        ok=one.ok,
        code=one.code,
        delay_ms=one.late * 1e3,
    )
