"""Reads every source on its own schedule: spread over the interval, none waiting for another."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from diagnostics.errors import DiagError
from diagnostics.service.jobs import Job, answered, failure_of
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.own.tracer import SpanRole, server_of
from diagnostics.wire.records import Scrape

log = logging.getLogger(__name__)
# Sources that failed last time are read by threads of their own: however many hang, they hold up no sound one.
FAILING_THREADS = 8
# A server's first round reads every model's configuration, and costs as much as ten others: of a large fleet some
# servers begin an interval or more later, rather than all of them hold up each other.
FIRST_ROUNDS_PER_SECOND = 3
SMALL_FLEET = 40
# How long a new or removed job may go unnoticed.
_ATTENTION = 0.5
Deliver = Callable[[Job, "Round"], None]


class Round:
    """What one round of one source gave.

    Attributes:
        scrapes: what was read, failed reads included; empty when the source was not even found.
        at: Unix seconds of its end.
        took: its seconds.
        error: why nothing was read; empty when something was.

    """

    def __init__(self, scrapes: list[Scrape], took: float, error: str) -> None:
        self.scrapes, self.took, self.error = scrapes, took, error
        self.at = time.time()


class Collector:
    """Runs jobs in a pool of threads; a job's next round is planned only when its last one has ended."""

    def __init__(self, threads: int, deliver: Deliver, metrics: OwnMetrics) -> None:
        """Begin with no jobs.

        Args:
            threads: rounds of sound sources that are under way at once.
            deliver: called with each round, in the thread that read it; must return soon.
            metrics: counts rounds.

        """
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="collect")
        self._failing = ThreadPoolExecutor(min(threads, FAILING_THREADS), thread_name_prefix="collect-failing")
        self._local = ThreadPoolExecutor(1, thread_name_prefix="collect-local")
        self._deliver, self._metrics = deliver, metrics
        self._due: list[tuple[float, int, Job]] = []
        self._jobs: dict[str, Job] = {}
        self._count = itertools.count()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def set_jobs(self, jobs: Iterable[Job]) -> None:
        """Read these sources from now on. One that was read before, with the same key, goes on as the new job says."""
        with self._changed:
            wanted = {job.key: job for job in jobs}
            gone = [job for key, job in self._jobs.items() if wanted.get(key) is not job]
            fresh = [job for key, job in wanted.items() if self._jobs.get(key) is not job]
            self._jobs = wanted
            self._begin(fresh)
            self._changed.notify_all()
        for job in gone:
            self._pool.submit(job.reader.close)

    def stop(self) -> None:
        """Begin no more rounds, and wait for those under way."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        for pool in (self._pool, self._failing, self._local):
            pool.shutdown(wait=True, cancel_futures=True)
        for job in self._jobs.values():
            job.reader.close()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._stopped:
                    return
                job = self._take_due()
                if job is None:
                    self._changed.wait(self._patience())
                    continue
            with contextlib.suppress(RuntimeError):  # it was stopped meanwhile
                self._pool_of(job).submit(self._round, job)

    def _pool_of(self, job: Job) -> ThreadPoolExecutor:
        if job.local:
            return self._local
        return self._failing if job.failures else self._pool

    def _begin(self, fresh: Sequence[Job]) -> None:
        now, counting = time.monotonic(), sum(job.counts for job in fresh)
        for position, job in enumerate(sorted(fresh, key=lambda job: job.offset / job.interval)):
            intervals = max(1, math.ceil((counting - SMALL_FLEET) / FIRST_ROUNDS_PER_SECOND / job.interval))
            self._push(job, now + job.offset + position % intervals * job.interval)

    def _push(self, job: Job, due: float) -> None:
        job.due = due
        heapq.heappush(self._due, (due, next(self._count), job))

    def _take_due(self) -> Job | None:
        if not self._due or self._due[0][0] > time.monotonic():
            return None
        return heapq.heappop(self._due)[2]

    def _patience(self) -> float:
        return min(_ATTENTION, max(0.0, self._due[0][0] - time.monotonic())) if self._due else _ATTENTION

    def _round(self, job: Job) -> None:
        if self._jobs.get(job.key) is not job:
            return
        made = self._seen(job)
        if self._jobs.get(job.key) is not job:
            return  # it was let go of meanwhile
        job.failures = job.failures + 1 if made.error else 0
        self._metrics.rounds.labels(job.key, "failed" if made.error else "ok").inc()
        self._metrics.round_seconds.labels(job.key).set(made.took)
        try:
            self._deliver(job, made)
        except Exception:
            self._metrics.errors.labels("deliver").inc()
            log.exception("a round of %s was lost", job.key)
        self._plan(job)

    def _seen(self, job: Job) -> Round:
        known = {"diag.deployment": job.deployment, **server_of(job.key)}
        with self._metrics.tracer.span("scrape", known, kind=SpanRole.CLIENT) as span:
            made = self._made(job, time.monotonic())
            span.note("diag.scrapes", len(made.scrapes))
            if made.error:
                span.failed("_OTHER", made.error)
        return made

    def _made(self, job: Job, begun: float) -> Round:
        try:
            scrapes = job.reader.round()
        except DiagError as error:
            return Round([], time.monotonic() - begun, str(error))
        except Exception as error:
            self._metrics.errors.labels("collect").inc()
            log.exception("reading %s", job.key)
            return Round([], time.monotonic() - begun, type(error).__name__)
        reason = "" if answered(scrapes) or not job.counts else failure_of(scrapes) or "nothing was read"
        return Round(scrapes, time.monotonic() - begun, reason)

    def _plan(self, job: Job) -> None:
        due = job.next_after(time.monotonic())
        missed = round((due - job.due) / job.interval) - 1 if not job.failures else 0
        if missed > 0:
            self._metrics.rounds.labels(job.key, "skipped").inc(missed)
        with self._changed:
            if self._jobs.get(job.key) is job and not self._stopped:
                self._push(job, due)
                self._changed.notify_all()
