"""Connections to PostgreSQL that give up on a server that takes a statement and never answers.

The server itself keeps `statement_timeout`. One that is stopped, or cut off behind a proxy that lives, keeps nothing:
the driver would wait for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class TimelyConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer does not come within `patience()` seconds."""

    patience: Callable[[], float] | None = None

    def wait(self, gen: Generator[Any, Any, T], *given: Any, **more: Any) -> T:
        """Return what the steps of a statement come to.

        Raises:
            OperationalError: they did not come to an end in time.

        """
        return super().wait(self._timely(gen), *given, **more)

    def _timely(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Go through the steps as the driver does; it also looks in ten times a second while nothing comes."""
        begun = time.monotonic()
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and self.patience is not None and time.monotonic() - begun > self.patience():
                    self.close()
                    raise psycopg.OperationalError(f"no answer within {time.monotonic() - begun:.0f} s")
                wanted = steps.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found
