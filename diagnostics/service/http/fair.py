"""An event loop that serves few connections at a time: those first that have waited longest.

asyncio serves all that are ready before it looks for others, and whoever comes new needs several such rounds: five
hundred busy connections would keep a probe of `/healthz` waiting for a second.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

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


def fair_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop."""
    return asyncio.SelectorEventLoop(FairSelector())
