"""Requests that differ from each other, or go to several servers, sent by the load tests' own sender."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from diagnostics.loadgen.load import SentRequest
from diagnostics.loadgen.pacing import Pacer, Sent, event_loop
from diagnostics.loadgen.transport import Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """One request; `pause` are seconds that the client waits before it, or after its last one if it has no address."""

    url: str = ""
    model: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.0


@dataclass(kw_only=True)
class Clients:
    """Clients of which each sends a chain of requests, one after the other; what they saw is in `records`.

    Attributes:
        chain: returns the requests of the n-th turn of all clients.
        seconds: during which turns begin.
        arrivals: seconds at which they do; None for a closed loop.
        clients: of a closed loop, or turns at once at most.
        patience: seconds after which a request has failed.
        start: seconds before the first turn.

    """

    chain: Callable[[int], Iterable[Post]]
    seconds: float
    arrivals: Sequence[float] | None
    clients: int
    patience: float
    start: float = 0.0
    records: list[SentRequest] = field(default_factory=list)

    async def run(self, ready: Callable[[], None] = lambda: None) -> Sent:
        """Send all; `ready` is called right before the first."""
        limit, connector = aiohttp.ClientTimeout(total=self.patience), aiohttp.TCPConnector(limit=self.clients)
        async with aiohttp.ClientSession(timeout=limit, connector=connector) as self._session:
            await asyncio.sleep(self.start)
            ready()
            pacer = Pacer(
                transport=self,  # type: ignore[arg-type]
                variants=sys.maxsize,
                seconds=self.seconds,
                clients=self.clients,
                patient=True,
            )
            return await pacer.run(self.arrivals)

    async def ask(self, index: int) -> Reply:
        """Send a chain and return its last answer's status."""
        code = 0
        for post in self.chain(index):
            await asyncio.sleep(post.pause)
            if post.url:
                sent, code = time.time(), await self._post(post)
                ms = (time.time() - sent) * 1e3
                self.records.append(SentRequest(t=sent, model=post.model, ms=ms, ok=code == 200, code=code))
        return Reply(ok=code == 200, code=code)

    async def _post(self, post: Post) -> int:
        try:
            async with self._session.post(post.url, data=post.body, headers=post.headers) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0


def send_all(groups: Sequence[Clients]) -> list[SentRequest]:
    """Send what all clients send, and return what they saw, in order of sending."""

    async def together() -> None:
        await asyncio.gather(*(clients.run() for clients in groups))

    with asyncio.Runner(loop_factory=event_loop) as runner:
        runner.run(together())
    return sorted((record for clients in groups for record in clients.records), key=lambda record: record.t)
