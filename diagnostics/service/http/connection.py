"""How many connections there are at once: beyond that the longest idle stranger gives way, before TLS or after it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import heapq
import selectors
import socket
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from diagnostics.errors import reason_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peers, peer_of

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


# A page holds one and Prometheus another. Of the 1,024 files that a process may open anywhere, half is left.
MOST_CONNECTIONS = 512
# What is taken at once before those that gave way are closed.
BACKLOG = 128
# What the system holds until it is taken: a client whose connection finds no room there tries again after a second.
_HELD_BY_SYSTEM = 1024
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_WHAT = "taking connections"
# Of asyncio: a second for which it leaves a socket alone that the system lets it take nothing from.
_RETRIED_AFTER = 0.9


class ConnectionLimiter(socket.socket):
    """A listening socket whose connections are bounded."""

    def __init__(self, bound: socket.socket, metrics: OwnMetrics, peers: Peers[socket.socket]) -> None:
        """Take over a socket that is bound to its address."""
        super().__init__(fileno=bound.detach())
        self._metrics, self._peers = metrics, peers
        self._exhausted = float("-inf")

    def listen(self, backlog: int = BACKLOG) -> None:
        """Begin to listen. `backlog`, of asyncio, is how many it takes at once."""
        super().listen(max(backlog, _HELD_BY_SYSTEM))

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address; of too many, one is ended."""
        try:
            made, address = super().accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._tell(error)
            raise
        self._peers.forget(lambda one: one.fileno() == -1)
        self._peers.came(peer_of(address), made)
        if len(self._peers) > MOST_CONNECTIONS:
            self._give_way()
        elif len(self._peers) <= MOST_CONNECTIONS // 2:
            self._metrics.faults.works(_WHAT)
        return made, address

    def _tell(self, error: OSError) -> None:
        """Tell that there is no room; asyncio only once, as it pauses for that but first asks again a hundred times."""
        self._metrics.faults.failed(_WHAT, reason_of(error))
        if time.monotonic() - self._exhausted < _RETRIED_AFTER:
            raise BlockingIOError from error
        self._exhausted = time.monotonic()

    def _give_way(self) -> None:
        ended = self._peers.give_way(MOST_CONNECTIONS)
        self._metrics.refused.labels("connections").inc(len(ended))
        self._metrics.faults.failed(_WHAT, f"more than {MOST_CONNECTIONS} are open at once: the oldest idle are ended")
        for one in ended:
            with contextlib.suppress(OSError):  # it ended by itself
                one.shutdown(socket.SHUT_RDWR)


# A round of so many takes some milliseconds.
AT_ONCE = 32
_Ready = list[tuple[selectors.SelectorKey, int]]


class FairSelector(selectors.DefaultSelector):
    """What is ready, a few at a time; the rest is still ready at the next look."""

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self._served: dict[int, int] = {}

    def select(self, timeout: float | None = None) -> _Ready:
        """Return those that are ready and were served longest ago; what is new was never served."""
        ready = super().select(timeout)
        if len(ready) > AT_ONCE:
            ready = heapq.nsmallest(AT_ONCE, ready, key=lambda one: self._served.get(one[0].fd, 0))
        self._looks += 1
        for key, _ in ready:
            self._served[key.fd] = self._looks
        return ready

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Forget a file, whose number another may get."""
        key = super().unregister(fileobj)
        self._served.pop(key.fd, None)
        return key


# Seconds to end a handshake, to send a request's headers, and to take all of what was answered.
HANDSHAKE_WITHIN = HEADERS_WITHIN = 10.0
TAKEN_WITHIN = 60.0
# Bytes of the largest record of TLS (RFC 8446, 5.1). Before its handshake each connection reserves so many;
# asyncio's own 256 KiB would be 128 MiB of all of them, and as much again of those that are being closed.
TLS_BUFFER = 16 * 2**10
# Seconds in which a client that sends a body that nobody reads may see the answer instead of a reset.
SEEN_WITHIN = 1.0


class _FairLoop(asyncio.SelectorEventLoop):
    async def create_server(self, *given: Any, **more: Any) -> asyncio.Server:
        if more.get("ssl"):
            more.setdefault("ssl_handshake_timeout", HANDSHAKE_WITHIN)
        return await super().create_server(*given, **more)


def fair_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, whose TLS is bounded in time and memory."""
    SSLProtocol.max_size = TLS_BUFFER  # nothing else in this process speaks TLS with asyncio
    return _FairLoop(FairSelector())


class _Answering(NamedTuple):
    """What an answer uses of a transport."""

    transport: asyncio.Transport
    close: Callable[[], None]

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def is_closing(self) -> bool:
        return self.transport.is_closing()


class Connection(H11Protocol):
    """Closed when headers trickle in, when an answer is not taken, or when there is a body that nobody reads."""

    _headers_due: asyncio.TimerHandle | None = None
    _answer_due: asyncio.TimerHandle | None = None
    _ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._headers_came()
        self._answer_taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived; while it is no whole request the time for its headers runs."""
        super().data_received(data)
        self._watch_headers()

    def _watch_headers(self) -> None:
        if self._answering:
            self._headers_came()
        elif self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(HEADERS_WITHIN, self.transport.abort)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def handle_events(self) -> None:
        """Answer what has arrived; an answer ends its connection by `end`."""
        super().handle_events()
        if self.cycle is not None:
            self.cycle.transport = cast(asyncio.Transport, _Answering(self.transport, self.end))

    def end(self) -> None:
        """Close the connection after an answer. What is left of a body is not read."""
        if self.conn.their_state is h11.SEND_BODY and not self._ending:
            self._ending = True
            self.flow.pause_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(SEEN_WITHIN, self.transport.abort)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, for as long as connections are kept.

        A client that did not wait for the answer would have its requests served without others in between.
        """
        self._headers_came()
        if not self.flow.write_paused:
            self._answer_taken()
        if self.conn.trailing_data[0]:
            self.end()
        elif not self._ending:
            super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client some time to take the whole of what is answered."""
        super().pause_writing()
        if self._answer_due is None:
            self._answer_due = self.loop.call_later(TAKEN_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if not self._answering:
            self._answer_taken()
        super().resume_writing()

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _answer_taken(self) -> None:
        if self._answer_due is not None:
            self._answer_due.cancel()
            self._answer_due = None
