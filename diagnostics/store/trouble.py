"""What goes wrong while remembering: counted each time, told once a minute, and survived."""

from __future__ import annotations

import logging
import threading
import time
from typing import Protocol

from prometheus_client import Counter, Gauge

log = logging.getLogger(__name__)
SECONDS_BETWEEN_LINES = 60.0
PART = QUEUE = "history"


class WriteFaults(Protocol):
    """Keeps what fails until it works."""

    def failed(self, what: str, reason: str) -> None: ...
    def works(self, what: str) -> None: ...


class Meters(Protocol):
    """The part of the service's own metrics that the history writes to."""

    queue_length: Gauge
    dropped: Counter
    errors: Counter

    @property
    def faults(self) -> WriteFaults: ...


class WriteErrors:
    """Counts and tells failures. For use from several threads."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()

    def tell(self, what: str, error: BaseException) -> None:
        """Count a failure, and log it unless the same was logged within a minute.

        Args:
            what: what was being done, as in `recording chat`; one line of log a minute for each.
            error: why it failed; shown by its own words, never with the statement or the URL behind it.

        """
        self._meters.errors.labels(PART).inc()
        self._meters.faults.failed(what, reason_of(error))
        now = time.monotonic()
        with self._lock:
            if now - self._told.get(what, float("-inf")) < SECONDS_BETWEEN_LINES:
                return
            self._told[what] = now
        log.warning("%s: %s", what, reason_of(error))

    def over(self, what: str) -> None:
        """Note that what failed works again, or still does."""
        self._meters.faults.works(what)

    def drop(self, count: int = 1) -> None:
        """Count what was let fall."""
        self._meters.dropped.labels(QUEUE).inc(count)


def reason_of(error: BaseException) -> str:
    """Return an error in one line: what the system or the database's driver said, no more."""
    said = getattr(error, "orig", None) or error
    text = getattr(said, "strerror", None) or str(said) or type(said).__name__
    return str(text).strip().split("\n", 1)[0][:200]
