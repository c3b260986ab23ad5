"""How many connections gRPC holds: its library can only turn the newest away, so the oldest idle are ended here.

The library tells nobody of its sockets; Linux lists them in /proc/self/fd (proc(5)). Elsewhere its own limit is all.
"""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peer, Peers, peer_of

# Between two looks; what comes meanwhile finds room up to the library's limit.
LOOK_EVERY = 0.25
MOST_KEPT = 128
MOST_CONNECTIONS = 256
_FILES = Path("/proc/self/fd")


class GrpcConnections:
    """The connections at one port. Used within one event loop."""

    def __init__(self, port: int, metrics: OwnMetrics) -> None:
        self._port, self._metrics = port, metrics
        self._peers: Peers[str] = Peers()
        self._seen: dict[str, str] = {}
        # Those that asked since the last look, which may not have seen them.
        self._asked: dict[Peer, bool] = {}

    def asked(self, peer: Peer, *, admitted: bool) -> None:
        """Note that a peer asked for something, and whether it proved who it is."""
        self._asked[peer] = admitted or self._asked.get(peer, False)

    def look(self) -> None:
        """Take in who came and who left, and end the longest idle of too many."""
        files = {name: _target(name) for name in _listed()}
        sockets = {target: name for name, target in files.items() if target.startswith("socket:")}
        for target in sockets.keys() - self._seen.keys():
            peer = self._peer(target, sockets[target])
            if peer is not None:
                self._peers.came(peer, target)
        self._seen = sockets
        for peer, admitted in self._asked.items():
            self._peers.asked(peer, admitted=admitted)
        self._asked.clear()
        self._peers.forget(lambda target: target not in sockets)
        ended = self._peers.give_way(MOST_KEPT)
        for target in ended:
            _end(target, sockets[target])
        self._metrics.refused.labels("connections").inc(len(ended))

    def _peer(self, target: str, name: str) -> Peer | None:
        """Return who is at the other end of a socket; None where it is not one of the port's connections."""
        with contextlib.suppress(OSError), _duplicate(name) as one:
            if _target(str(one.fileno())) == target and one.family in (socket.AF_INET, socket.AF_INET6):
                return peer_of(one.getpeername()) if one.getsockname()[1] == self._port else None
        return None


def _end(target: str, name: str) -> None:
    with contextlib.suppress(OSError), _duplicate(name) as one:
        if _target(str(one.fileno())) == target:  # else the number was given to another file meanwhile
            one.shutdown(socket.SHUT_RDWR)


def _duplicate(name: str) -> socket.socket:
    number = os.dup(int(name))
    try:
        return socket.socket(fileno=number)
    except OSError:
        os.close(number)
        raise


def _listed() -> list[str]:
    try:
        return os.listdir(_FILES)  # noqa: PTH208 - names, of which there are thousands, four times a second
    except OSError:
        return []


def _target(name: str) -> str:
    """Return what a file is, as in `socket:[4711]`; empty where it was closed."""
    try:
        return os.readlink(_FILES / name)  # noqa: PTH115 - as above
    except OSError:
        return ""
