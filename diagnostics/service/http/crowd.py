"""How many connections there are at once: beyond that the longest idle stranger gives way, before TLS or after it."""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from typing import Any

from diagnostics.errors import reason_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peers, peer_of

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
