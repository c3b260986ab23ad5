"""Who is connected to a listener, and who gives way when they are too many: strangers first, of them the longest idle.

Were the newest rejected, whoever holds connections open and sends nothing would keep out everyone else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from diagnostics.service.listening import ip_of

Peer = tuple[str, int]
Held = TypeVar("Held")


class Peers(Generic[Held]):
    """Connections by the address and port of who opened them. For one thread."""

    def __init__(self) -> None:
        # Each in the order in which they last asked for something.
        self._strangers: dict[Peer, Held] = {}
        self._known: dict[Peer, Held] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def came(self, peer: Peer, held: Held) -> None:
        """Add a connection."""
        self._known.pop(peer, None)
        self._strangers.pop(peer, None)
        self._strangers[peer] = held

    def requested(self, peer: Peer, *, admitted: bool) -> None:
        """Note that a peer asked for something, and whether it proved who it is."""
        group = self._known if admitted or peer in self._known else self._strangers
        held = self._strangers.pop(peer, None) or self._known.pop(peer, None)
        if held is not None:
            group[peer] = held

    def give_way(self, most: int) -> list[Held]:
        """Return, and forget, the connections beyond so many."""
        ended = []
        while len(self) > most:
            group = self._strangers or self._known
            ended.append(group.pop(next(iter(group))))
        return ended

    def forget(self, gone: Callable[[Held], bool]) -> None:
        """Forget the connections that have ended by themselves."""
        for group in (self._strangers, self._known):
            for peer in [peer for peer, held in group.items() if gone(held)]:
                del group[peer]


def peer_of(address: tuple[object, ...]) -> Peer:
    """Return a peer of what a socket calls it; an IPv4 address is the same whichever socket took it."""
    ip = ip_of(str(address[0]))
    mapped = getattr(ip, "ipv4_mapped", None)
    return str(mapped or ip or address[0]), int(str(address[1]))


def counted_as(address: str) -> str:
    """Return what an address counts as: the /64 of an IPv6 address, which one sender has to itself."""
    ip = ip_of(address)
    if ip is None or ip.version == 4:
        return address
    return str(ip.ipv4_mapped or int(ip) >> 64)
