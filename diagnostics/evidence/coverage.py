"""Which models of a window are judged: the busiest of too many, since each takes all checks."""

from __future__ import annotations

from collections.abc import Container, Mapping
from heapq import nlargest
from typing import NamedTuple

from diagnostics.window.normalize import ModelKey
from diagnostics.window.window import Window

MOST_JUDGED = 2_000
"""Versions of models of all servers together: the checks of as many take some five seconds of a processor (ours)."""


class Coverage(NamedTuple):
    """What a verdict is about.

    Attributes:
        judged: the model versions by their servers; None where all are judged.
        left_out: how many model versions are not.
        with_requests: how many of those ended requests while they were read.
        unread: the servers of which models were not even read, as they have too many.

    """

    judged: Mapping[str, Container[ModelKey]] | None
    left_out: int = 0
    with_requests: int = 0
    unread: tuple[str, ...] = ()

    @property
    def hides_requests(self) -> bool:
        """Whether something that was asked for may be left out."""
        return self.with_requests > 0 or bool(self.unread)

    def __str__(self) -> str:
        """Return what is left out, as in `300 models, 20 of them with requests`; empty where nothing is."""
        parts = []
        if self.left_out:
            parts.append(f"{self.left_out:,} models, {self.with_requests:,} of them with requests")
        if self.unread:
            parts.append(f"further models of {', '.join(self.unread[:3])}{', …' if len(self.unread) > 3 else ''}")
        return " and ".join(parts)


def coverage(window: Window) -> Coverage:
    """Return which model versions of a window are judged: those with most requests while they were read."""
    servers = window.servers.values()
    unread = tuple(server.name for server in servers if server.has_more_models)
    counted = [(server, key) for server in servers for key in server.keys_seen()]
    if len(counted) <= MOST_JUDGED:
        return Coverage(None, unread=unread)
    requests = [server.requests_of(key) for server, key in counted]
    judged: dict[str, set[ModelKey]] = {server.name: set() for server in servers}
    kept = set(nlargest(MOST_JUDGED, range(len(counted)), key=requests.__getitem__))
    for place in kept:
        server, key = counted[place]
        judged[server.name].add(key)
    busy = sum(count > 0 for place, count in enumerate(requests) if place not in kept)
    return Coverage(judged, len(counted) - MOST_JUDGED, busy, unread)
