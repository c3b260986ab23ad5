"""Messages that are still on their way: a few at once, each with a deadline.

Beyond that the oldest of whoever sends most at once gives way, so that senders that never finish keep nobody out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from diagnostics.service.http.authentication import counted_as

# Seconds in which a message must have come as a whole.
WITHIN = 30.0
# Each may be as large as `web.max_body`.
MOST = 16


class PendingUploads:
    """Used within one event loop."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._open: dict[asyncio.Timeout, str] = {}

    @asynccontextmanager
    async def of(self, address: str) -> AsyncIterator[None]:
        """Hold a place while a message of this sender comes.

        Raises:
            TimeoutError: it took too long, or gave way.

        """
        async with asyncio.timeout(WITHIN) as due:
            self._open[due] = counted_as(address)
            self._make_room()
            try:
                yield
            finally:
                self._open.pop(due, None)

    def _make_room(self) -> None:
        while len(self._open) > self._most:
            held = Counter(self._open.values())
            most = max(held.values())
            oldest = next(due for due, sender in self._open.items() if held[sender] == most)
            del self._open[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
