"""How many connections there are at once, and which are served first: the longest idle stranger gives way."""

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
from diagnostics.service.http.waiting import WaitingConnections
from diagnostics.service.own.metrics import FaultPart, OwnMetrics
from diagnostics.service.peers import Peers, peer_of

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


# A page holds one and Prometheus another. Of the 1,024 files that a process may open anywhere, a quarter is left.
MOST_CONNECTIONS = 512
# Those that are accepted and not served yet. Were they left to the system, its queue would fill, and a client for whom
# there is no room in it tries again after a second (tcp(7), tcp_syn_retries): also who asks for our health.
MOST_WAITING = 256
# What is begun to be served at once, and what is accepted at once.
BACKLOG, _ACCEPTED_AT_ONCE = 32, 512
# What Linux holds at most unless it is set up otherwise (net.core.somaxconn). A connection that waits there has time to
# send its headers: once accepted it is among those that are ended first while these have not arrived.
_HELD_BY_SYSTEM = 4096
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_WHAT = "taking connections"
# Of asyncio: a second for which it leaves a socket alone that the system lets it take nothing from.
_RETRIED_AFTER = 0.9
# Seconds to end a handshake, to send a request's headers, and to take all of what was answered.
HANDSHAKE_WITHIN = HEADERS_WITHIN = 10.0
TAKEN_WITHIN = 60.0


class ConnectionLimiter(socket.socket):
    """A listening socket whose connections are bounded, those that are served and those that wait for it."""

    def __init__(self, bound: socket.socket, metrics: OwnMetrics, peers: Peers[socket.socket]) -> None:
        """Take over a socket that is bound to its address."""
        super().__init__(fileno=bound.detach())
        self._metrics, self._peers = metrics, peers
        self._exhausted = float("-inf")
        self.waiting = WaitingConnections()

    def listen(self, backlog: int = BACKLOG) -> None:
        """Begin to listen. `backlog`, of asyncio, is how many it takes at once."""
        super().listen(max(backlog, _HELD_BY_SYSTEM))

    def take(self) -> bool:
        """Accept what the system holds, a few hundred at most; return whether `accept` has an answer."""
        refused, before = False, len(self.waiting)
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                self.waiting.add(super().accept())
            except OSError as error:
                refused = error.errno in EXHAUSTED
                break
        came = len(self.waiting) > before
        self.waiting.look()
        if ended := self.waiting.make_room(MOST_WAITING, HEADERS_WITHIN):
            self._log_ended(ended, f"more than {MOST_WAITING} wait to be served: those without headers are ended first")
        elif came and len(self.waiting) <= MOST_WAITING // 2 and len(self._peers) <= MOST_CONNECTIONS // 2:
            self._metrics.faults.works(_WHAT)
        return refused or self.waiting.ready > 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection whose headers arrived and its address; of too many, one is ended."""
        accepted = self.waiting.pop()
        if accepted is None:
            try:
                self.waiting.add(super().accept())
            except OSError as error:
                if error.errno in EXHAUSTED:
                    self._log_full(error)
                raise
            raise BlockingIOError
        made, address = accepted
        self._peers.forget(lambda one: one.fileno() == -1)
        self._peers.came(peer_of(address), made)
        if len(self._peers) > MOST_CONNECTIONS:
            self._give_way()
        return made, address

    def close(self) -> None:
        """End what waits, too."""
        self.waiting.close()
        super().close()

    def _log_full(self, error: OSError) -> None:
        """Log that there is no room; asyncio only once, as it pauses for that but first asks again a hundred times."""
        self._metrics.faults.failed(_WHAT, reason_of(error), FaultPart.HTTP)
        if time.monotonic() - self._exhausted < _RETRIED_AFTER:
            raise BlockingIOError from error
        self._exhausted = time.monotonic()

    def _give_way(self) -> None:
        ended = self._peers.give_way(MOST_CONNECTIONS)
        self._log_ended(len(ended), f"more than {MOST_CONNECTIONS} are open at once: the oldest idle are ended")
        for one in ended:
            with contextlib.suppress(OSError):  # it ended by itself
                one.shutdown(socket.SHUT_RDWR)

    def _log_ended(self, count: int, reason: str) -> None:
        self._metrics.refused.labels("connections").inc(count)
        self._metrics.faults.failed(_WHAT, reason, FaultPart.HTTP)


# A round of so many takes some milliseconds.
AT_ONCE = 32
_Ready = list[tuple[selectors.SelectorKey, int]]


class FairSelector(selectors.DefaultSelector):
    """What is ready, a few at a time; the rest is still ready at the next look.

    What is new shares each look with what was served longest ago. Once nothing new is left, further ones are begun.
    """

    def __init__(self) -> None:
        super().__init__()
        self._looks = 0
        self._served: dict[int, int] = {}
        self._limiters: dict[int, ConnectionLimiter] = {}
        self._listening: dict[int, tuple[selectors.SelectorKey, ConnectionLimiter]] = {}

    def listen(self, listener: ConnectionLimiter) -> None:
        """Know a socket, which asyncio registers by its number, as one whose connections wait to be served."""
        self._limiters[listener.fileno()] = listener

    def select(self, timeout: float | None = None) -> _Ready:
        """Return those that are ready and were served longest ago; half of the places are for what is new."""
        listeners = {file for _, one in self._listening.values() for file in (one.fileno(), one.waiting.poll.fileno())}
        ready = super().select(self._patience(timeout))
        others = [one for one in ready if one[0].fd not in listeners]
        new = [one for one in others if one[0].fd not in self._served]
        known = [one for one in others if one[0].fd in self._served]
        room = max(AT_ONCE // 2, AT_ONCE - len(known))
        longest = heapq.nsmallest(AT_ONCE - min(len(new), room), known, key=lambda one: self._served[one[0].fd])
        begun = [key for key, one in self._listening.values() if one.take() and len(new) <= room]
        self._looks += 1
        for key, _ in (chosen := [*new[:room], *longest]):
            self._served[key.fd] = self._looks
        return [*chosen, *((key, selectors.EVENT_READ) for key in begun)]

    def _patience(self, timeout: float | None) -> float | None:
        """Return seconds to wait at most: none while accepted connections can be served."""
        waiting = [one.waiting for _, one in self._listening.values()]
        if any(one.ready for one in waiting):
            return 0.0
        return min(
            (due for due in (timeout, *(one.due(HEADERS_WITHIN) for one in waiting)) if due is not None), default=None
        )

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> selectors.SelectorKey:
        """Add a file; of a listening socket also what wakes it when the headers of a waiting connection arrive."""
        key = super().register(fileobj, events, data)
        if (listener := self._limiters.get(key.fd)) is not None and key.fd == listener.fileno():
            self._listening[key.fd] = key, listener
            super().register(listener.waiting.poll, selectors.EVENT_READ, data)
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        """Forget a file, whose number another may get."""
        key = super().unregister(fileobj)
        self._served.pop(key.fd, None)
        if (left := self._listening.pop(key.fd, None)) is not None:
            super().unregister(left[1].waiting.poll)
        return key


# Bytes of the largest record of TLS (RFC 8446, 5.1). Before its handshake each connection reserves so many;
# asyncio's own 256 KiB would be 128 MiB of all of them, and as much again of those that are being closed.
TLS_BUFFER = 16 * 2**10
# Seconds in which a client that sends a body that nobody reads may see the answer instead of a reset.
SEEN_WITHIN = 1.0


class _FairLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._fair = FairSelector()
        super().__init__(self._fair)

    async def create_server(self, *given: Any, **more: Any) -> asyncio.Server:
        if more.get("ssl"):
            more.setdefault("ssl_handshake_timeout", HANDSHAKE_WITHIN)
        if isinstance(more.get("sock"), ConnectionLimiter):
            self._fair.listen(more["sock"])
        return await super().create_server(*given, **more)


def fair_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop, whose TLS is bounded in time and memory."""
    SSLProtocol.max_size = TLS_BUFFER  # nothing else in this process speaks TLS with asyncio
    return _FairLoop()


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
