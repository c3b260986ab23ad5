"""What is still to be measured, handed out so that a server is started anew as seldom as possible."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.prediction.plan import Job

# A start of a server, a change of its models, the last spans, and reading what came.
OVERHEAD_SECONDS = 12.0
TRIES = 2


class Backlog:
    """Jobs by their server. Safe for threads.

    A measurement that was disturbed, or failed, is made once more.
    """

    def __init__(
        self, jobs: Iterable[Job], seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Take the jobs; none is handed out that would not be over in `seconds` from now (None: no end)."""
        self._waiting, self._tries, self._lock = list(jobs), Counter[str](), threading.Lock()
        self._clock, self._deadline = clock, None if seconds is None else clock() + seconds

    def take(self, server: str, *, cards: int) -> Job | None:
        """Return the next job for a worker that runs this server; None when nothing is left, or no time.

        Of the lowest rank, one of the same server, else of the server that has most to do. A worker takes jobs that
        need no more than the `cards` that it has for itself: two servers would share them.
        """
        with self._lock:
            able = [job for job in self._waiting if job.cards <= cards and self._in_time(job)]
            if not able:
                return None
            left = Counter(job.server for job in able)
            job = min(able, key=lambda one: (one.rank, one.server != server, not one.cards, -left[one.server]))
            self._waiting.remove(job)
            self._tries[job.name] += 1
            return job

    def again(self, job: Job) -> bool:
        """Put a job back, after all others of its rank's successor; False when it was tried often enough."""
        with self._lock:
            if self._tries[job.name] >= TRIES:
                return False
            self._waiting.append(replace(job, rank=job.rank + 1))
            return True

    def left(self) -> list[str]:
        """Return the names of the jobs that were not handed out."""
        with self._lock:
            return [job.name for job in self._waiting]

    def _in_time(self, job: Job) -> bool:
        needed = job.settle + job.seconds + OVERHEAD_SECONDS
        return self._deadline is None or self._clock() + needed <= self._deadline
