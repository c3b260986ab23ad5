"""How long what arrived waits for its verdict, asked at any moment: also while a verdict is being made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

LATE_INTERVALS = 3
"""Rounds that may pass without a verdict: two may be judged together, and a third come while that is made (ours)."""
LATE_SECONDS = 30.0
"""Seconds that a verdict may take in any case: its forecasts may begin for half of them, and the last one has to end
on a machine whose processors are shared (ours)."""


def late_after(interval: float) -> float:
    """Return after how many seconds without a verdict what arrived waits too long, of rounds each `interval` seconds.

    It is the larger of `LATE_INTERVALS` and `LATE_SECONDS`.
    """
    return max(LATE_INTERVALS * interval, LATE_SECONDS)


class EvaluationLags:
    """Since when each deployment waits for a verdict. For any thread; times are steady seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._waiting: dict[str, float] = {}
        self._running: dict[str, float] = {}
        self._last: dict[str, float] = {}

    def arrived(self, deployment: str) -> None:
        """Note that something came which no verdict knows, nor the one that is being made."""
        with self._lock:
            self._waiting.setdefault(deployment, self._clock())

    def begin(self, deployment: str) -> None:
        """Note that a verdict on all that came is being made."""
        with self._lock:
            if deployment in self._waiting:
                self._running[deployment] = self._waiting.pop(deployment)

    def end(self, deployment: str, lag: float = 0.0) -> None:
        """Note that it was made, so many seconds after the newest scrape."""
        with self._lock:
            self._running.pop(deployment, None)
            self._last[deployment] = lag

    def fail(self, deployment: str) -> None:
        """Note that it could not be made: what came waits on."""
        with self._lock:
            if deployment in self._running:
                self._waiting[deployment] = self._running.pop(deployment)

    def forget(self, deployment: str) -> None:
        """Know nothing of a deployment any more."""
        with self._lock:
            for known in (self._waiting, self._running, self._last):
                known.pop(deployment, None)

    def waited(self, deployment: str) -> float:
        """Return for how many seconds the oldest of what came waits; 0 where everything is judged."""
        with self._lock:
            known = (self._running.get(deployment), self._waiting.get(deployment))
            since = min((one for one in known if one is not None), default=None)
            return 0.0 if since is None else self._clock() - since

    def lag(self, deployment: str) -> float:
        """Return the seconds from the newest scrape to the last verdict, or how long one is awaited if that is more."""
        return max(self.waited(deployment), self._last.get(deployment, 0.0))
