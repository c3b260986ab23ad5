"""Connections that were accepted and are not served yet: who asks whether the service lives comes before others.

Anybody may ask that, without credentials: a flood of such requests must not keep out those that wait beside it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from typing import Any

from diagnostics.service.http.health import OPEN_PATHS
from diagnostics.service.peers import counted_as

Accepted = tuple[socket.socket, Any]
"""A connection and the address of who opened it."""
# How the first line of a request ends its path that asks for the health of the service, below any prefix.
_PROBES = tuple(f"{path} HTTP/".encode() for path in OPEN_PATHS)
# Bytes that are looked at: headers, or the first record of TLS (RFC 8446, 5.1), whose own head has five.
_LOOKED_AT, _TLS_HANDSHAKE, _TLS_HEAD = 4096, 0x16, 5
_ENDED = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class _Turns:
    """Connections by the address of who opened them, which take turns."""

    def __init__(self) -> None:
        self._by_sender: dict[str, deque[Accepted]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._by_sender.values()))

    @property
    def most_of_one(self) -> int:
        """How many the busiest address has; 0 while nothing waits."""
        return max(map(len, self._by_sender.values()), default=0)

    def add(self, accepted: Accepted) -> None:
        self._by_sender.setdefault(counted_as(str(accepted[1][0])), deque()).append(accepted)

    def pop(self) -> Accepted:
        """Return, and forget, the first one of the address whose turn it is."""
        sender = next(iter(self._by_sender))
        theirs = self._by_sender.pop(sender)
        accepted = theirs.popleft()
        if theirs:
            self._by_sender[sender] = theirs  # behind the others
        return accepted

    def end_of_busiest(self) -> None:
        """End the oldest one of the address that most are of."""
        busiest = max(self._by_sender, key=lambda sender: len(self._by_sender[sender]))
        self._by_sender[busiest].popleft()[0].close()
        if not self._by_sender[busiest]:
            del self._by_sender[busiest]


class WaitingConnections:
    """Connections by the address of who opened them, which take turns; for one thread.

    A connection waits until its headers arrive, of TLS its first record. It costs its descriptor only until then.
    """

    def __init__(self) -> None:
        self.poll = select.epoll()
        self._incomplete: dict[int, tuple[float, Accepted]] = {}
        self._probes, self._others = _Turns(), _Turns()
        self._probe_was_last = False

    def __len__(self) -> int:
        return len(self._incomplete) + self.ready

    @property
    def ready(self) -> int:
        """How many can be served: their headers have arrived, or they have ended."""
        return len(self._probes) + len(self._others)

    def add(self, accepted: Accepted) -> None:
        """Add a connection."""
        file = accepted[0].fileno()
        self._incomplete[file] = time.monotonic(), accepted
        self.poll.register(file, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    def look(self) -> None:
        """Note of which connections the headers have arrived."""
        for file, events in self.poll.poll(0) if self._incomplete else ():
            _, accepted = self._incomplete[file]
            seen = _seen(accepted[0])
            if not (events & _ENDED or _is_complete(seen)):
                continue
            self.poll.unregister(file)
            del self._incomplete[file]
            (self._probes if _is_probe(seen) else self._others).add(accepted)

    def pop(self) -> Accepted | None:
        """Return, and forget, the one to be served next: a probe, and after each probe another; None without one."""
        self._probe_was_last = bool(self._probes) and not (self._probe_was_last and self._others)
        if self._probe_was_last:
            return self._probes.pop()
        return self._others.pop() if self._others else None

    def make_room(self, most: int, within: float) -> int:
        """End those whose headers do not come within so many seconds, and the oldest of too many; return their number.

        Incomplete ones go first, then those of the address that most are of, probes or others.
        """
        now, ended = time.monotonic(), 0
        while (first := next(iter(self._incomplete), None)) and now - self._incomplete[first][0] >= within:
            self._end_incomplete(first)
        while len(self) > most:
            ended += 1
            if self._incomplete:
                self._end_incomplete(next(iter(self._incomplete)))
            else:
                max(self._others, self._probes, key=lambda one: (one.most_of_one, len(one))).end_of_busiest()
        return ended

    def close(self) -> None:
        """End all of them."""
        self.make_room(0, 0.0)
        self.poll.close()

    def due(self, within: float) -> float | None:
        """Return seconds until the oldest has waited too long for its headers; None where nothing waits."""
        first = next(iter(self._incomplete.values()), None)
        return None if first is None else max(first[0] + within - time.monotonic(), 0.0)

    def _end_incomplete(self, file: int) -> None:
        self.poll.unregister(file)
        self._incomplete.pop(file)[1][0].close()


def _seen(one: socket.socket) -> bytes:
    """Return the first bytes that arrived, which stay to be read."""
    with contextlib.suppress(OSError):
        return one.recv(_LOOKED_AT, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    return b""


def _is_complete(seen: bytes) -> bool:
    """Return whether these are whole headers, a whole record of TLS, or what can become neither."""
    if not seen or len(seen) == _LOOKED_AT:
        return bool(seen)
    if seen[0] == _TLS_HANDSHAKE:
        return len(seen) >= _TLS_HEAD + int.from_bytes(seen[3:_TLS_HEAD], "big", signed=False) > _TLS_HEAD
    return b"\n\r\n" in seen or b"\n\n" in seen or not seen[:1].isupper()


def _is_probe(seen: bytes) -> bool:
    """Return whether a request asks for the health of the service; False of an encrypted one."""
    line = seen.partition(b"\n")[0]
    return line.startswith((b"GET /", b"HEAD /")) and any(end in line for end in _PROBES)
