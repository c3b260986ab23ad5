"""How many connections there are at once: beyond that the oldest gives way, whether or not it got as far as TLS.

Were the newest turned away, whoever holds connections open and sends nothing would keep out everyone else.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import time
from typing import Any

from diagnostics.errors import reason_of
from diagnostics.service.own.metrics import OwnMetrics

# A page holds one and Prometheus another. Of the 1,024 files that a process may open anywhere, half is left.
MOST_CONNECTIONS = 512
# What is taken at once before those that gave way are closed.
BACKLOG = 128
EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_WHAT = "taking connections"
# Of asyncio: a second for which it leaves a socket alone that the system lets it take nothing from.
_RETRIED_AFTER = 0.9


class Crowd(socket.socket):
    """A listening socket whose connections are bounded."""

    def __init__(self, bound: socket.socket, metrics: OwnMetrics) -> None:
        """Take over a socket that is bound to its address."""
        super().__init__(fileno=bound.detach())
        self._metrics = metrics
        self._open: list[socket.socket] = []
        self._exhausted = float("-inf")

    def accept(self) -> tuple[socket.socket, Any]:
        """Return the next connection and its address; the oldest of too many is ended."""
        try:
            made, address = super().accept()
        except OSError as error:
            if error.errno in EXHAUSTED:
                self._tell(error)
            raise
        self._open = [one for one in self._open if one.fileno() != -1]
        self._open.append(made)
        beyond = len(self._open) - MOST_CONNECTIONS
        if beyond > 0:
            self._give_way(self._open[:beyond])
        elif len(self._open) <= MOST_CONNECTIONS // 2:
            self._metrics.faults.works(_WHAT)
        return made, address

    def _tell(self, error: OSError) -> None:
        """Tell that there is no room; asyncio only once, as it pauses for that but first asks again a hundred times."""
        self._metrics.faults.failed(_WHAT, reason_of(error))
        if time.monotonic() - self._exhausted < _RETRIED_AFTER:
            raise BlockingIOError from error
        self._exhausted = time.monotonic()

    def _give_way(self, oldest: list[socket.socket]) -> None:
        del self._open[: len(oldest)]
        self._metrics.refused.labels("connections").inc(len(oldest))
        self._metrics.faults.failed(_WHAT, f"more than {MOST_CONNECTIONS} are open at once: the oldest are ended")
        for one in oldest:
            with contextlib.suppress(OSError):  # it ended by itself
                one.shutdown(socket.SHUT_RDWR)
