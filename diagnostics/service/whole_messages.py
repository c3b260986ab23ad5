"""Messages that have come whole and wait to be read, of all listeners together: bounded by number and bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# They are read one after another.
MOST_WHOLE = 16
MOST_WHOLE_BYTES = 32 * 2**20


class NoRoom(Exception):
    """More messages wait already than are held at once."""


class WholeMessages:
    """Bounds the messages that have come and wait to be read. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages, self._bytes = 0, 0

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """Hold a message of so many bytes; one is held however large it is.

        Raises:
            NoRoom: with it they would be too many, or too large.

        """
        with self._lock:
            if self._messages and (self._messages >= MOST_WHOLE or self._bytes + size > MOST_WHOLE_BYTES):
                raise NoRoom(f"{self._messages} messages are being read already")
            self._messages, self._bytes = self._messages + 1, self._bytes + size
        try:
            yield
        finally:
            with self._lock:
                self._messages, self._bytes = self._messages - 1, self._bytes - size
