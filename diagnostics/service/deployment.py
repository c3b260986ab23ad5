"""One deployment as the service lives with it: its newest minutes, its verdicts, its incidents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from queue import Empty, Full, Queue
from typing import NamedTuple

from diagnostics.diagnosis.diagnose import DiagnosisOptions, Validation, diagnose
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.incident import Incident, IncidentBook
from diagnostics.diagnosis.objective import Objective
from diagnostics.diagnosis.validation import CpuBudget, ForecastCache
from diagnostics.evidence.evidence import WindowEvidence, WindowLru
from diagnostics.service.jobs import answered
from diagnostics.service.own.lags import late_after
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.state import Evaluation
from diagnostics.window.rolling import RollingWindow
from diagnostics.wire.records import Scrape
from diagnostics.wire.spans import Recorded, Span

# A round of a thousand models with their configurations fits; beyond, the evaluator is too far behind to catch up.
MOST_WAITING = 5_000
MOST_BYTES = 64 * 2**20
"""Of bodies that wait: a server whose pages are read faster than they can be parsed must not fill the memory."""
# Processor time that one deployment may take in what arrived, before others are judged.
_SECONDS_AT_ONCE = 1.0
# Of the time after which a verdict is late, the part that its forecasts may begin in: as much is left for the last of
# them, and for all else that makes a verdict.
_FORECASTING = 0.5
# Of counters, which a window has to hold for a verdict on failed reads: between two reads is one interval.
_FEWEST_INTERVALS = 2


@dataclass(frozen=True, slots=True)
class Gone:
    """A server is not part of the deployment any more."""

    server: str


class RoutedSpans(NamedTuple):
    """Spans that arrived at Unix second `at`, and what is to be known of them beside."""

    spans: Sequence[Span]
    at: float
    about: Recorded = Recorded()


Arrival = Scrape | Gone | RoutedSpans


class Deployment:
    """Takes what arrives from any thread; everything else is the evaluator's, one thread.

    Attributes:
        name: as incidents call it.
        interval: seconds between two rounds of its servers.
        objective: what its latency must be; None where nothing is stated.
        book: its incidents.
        latest: steady seconds of the newest scrape that was taken in; None before the first.
        ended: whether it is watched no longer: its next verdict closes its incidents, and is its last.

    """

    def __init__(
        self,
        name: str,
        window: RollingWindow,
        book: IncidentBook,
        metrics: OwnMetrics,
        *,
        interval: float,
        objective: Objective | None = None,
        blind_spots: Callable[[], Sequence[BlindSpot]] = lambda: (),
        addresses: Callable[[], Mapping[str, str]] = dict,
        awake: WindowLru | None = None,
    ) -> None:
        self.name, self.interval, self.book, self._window = name, interval, book, window
        self.objective, self._blind_spots, self._metrics, self._awake = objective, blind_spots, metrics, awake
        self._addresses = addresses
        self._inbox: Queue[Arrival] = Queue(MOST_WAITING)
        self._held_back: Arrival | None = None
        self._bytes, self._lock = 0, threading.Lock()
        self.latest: float | None = None
        self.ended = False
        self._answered: float | None = None
        self._last: Evaluation | None = None
        self._forecasts = ForecastCache()
        self._latest_at = 0.0

    def allow_spans(self, most: int) -> None:
        """Keep at most so many spans from now on, as other servers may have come."""
        self._window.allow_spans(most)

    def bytes_held(self) -> Mapping[str, int]:
        """Return about how many bytes are kept of each server, and of spans under the empty name."""
        return {**self._window.bytes_by_server, "": self._window.bytes_of_spans}

    def give(self, arrival: Arrival) -> bool:
        """Put something into the inbox; False, and counted, when that is full."""
        size = _size(arrival)
        if self._bytes and self._bytes + size > MOST_BYTES:
            self._metrics.dropped.labels("evaluation").inc()
            return False
        try:
            self._inbox.put_nowait(arrival)
        except Full:
            self._metrics.dropped.labels("evaluation").inc()
            return False
        self._hold(size)
        return True

    def _hold(self, size: int) -> None:
        with self._lock:
            self._bytes += size

    def take_in(self) -> bool:
        """Move what arrived into the window; return whether it makes another verdict than the last one.

        Failed reads do while the window holds counters of before, which show what is missing: then the last verdict
        names the outage, and stays.

        What takes longer than a second is left for the next time: more may arrive meanwhile than can be taken in. So is
        a round that failed after another one did, if no server answered in between. Where verdicts are late, such
        rounds wait together. One verdict on all of them would open no incident, or see nothing of before.
        """
        fresh, until = False, time.thread_time() + _SECONDS_AT_ONCE
        failed: float | None = None
        while time.thread_time() < until and (arrival := self._next()) is not None:
            if isinstance(arrival, Scrape):
                if answered((arrival,)):
                    failed = None
                elif arrival.body is None:
                    failed = arrival.mono if failed is None else failed
                if fresh and failed is not None and arrival.mono - failed >= self.interval:
                    self._held_back = arrival
                    break
            self._hold(-_size(arrival))
            if isinstance(arrival, Scrape):
                self._window.add(arrival)
                fresh = self._shows_more(arrival) or fresh
                if self.latest is None or arrival.mono >= self.latest:
                    self.latest, self._latest_at = arrival.mono, arrival.at
            elif isinstance(arrival, Gone):
                self._window.forget(arrival.server)
            else:
                self._window.add_spans(*arrival)
        return fresh

    def _next(self) -> Arrival | None:
        """Return what arrived first, and was not taken in; None when that is nothing."""
        arrival, self._held_back = self._held_back, None
        if arrival is None:
            with suppress(Empty):
                arrival = self._inbox.get_nowait()
        return arrival

    @property
    def behind(self) -> bool:
        """Whether something is left that arrived."""
        return self._held_back is not None or not self._inbox.empty()

    def _shows_more(self, arrival: Scrape) -> bool:
        """Return whether a verdict is to be made for a scrape: not where it and the window hold no counters."""
        if answered((arrival,)):
            self._answered = max(arrival.mono, self._answered or arrival.mono)
        if self._answered is None:
            return True
        held = max(self._window.seconds - _FEWEST_INTERVALS * self.interval, 0.0)
        return arrival.mono - self._answered <= held

    def evaluate(self, *, simulate: bool = True) -> Evaluation:
        """Return the verdict on what was taken in; `simulate` its suggestions, as `diag explain` does."""
        # What is not forecast by then is at the next verdict, which knows what was.
        begun, budget = time.thread_time(), _budget(self.interval)
        explanation = self._explained(
            self._blind_spots(), Validation(simulate=simulate, budget=budget, forecasts=self._forecasts)
        )
        steady = self.latest if self.latest is not None else time.monotonic()
        changes = self.book.update(explanation, self._latest_at, steady)
        # A surface that shows findings shows the severity of their incidents.
        explanation = replace(explanation, findings=self.book.with_severities(explanation.findings))
        self._last = Evaluation(
            deployment=self.name,
            at=self._latest_at,
            took=time.thread_time() - begun,
            lag=time.monotonic() - steady,
            explanation=explanation,
            changes=changes,
            forecasting=budget.used,
        )
        return self._last

    def last(self) -> Evaluation | None:
        """Return the verdict of before with the end of all incidents; None when there was neither."""
        now = time.time()
        changes = self.book.end(now)
        if self._last is not None:
            return replace(self._last, changes=changes)
        if not changes:
            return None
        explanation = self._explained((), Validation(simulate=False, forecasts=self._forecasts))
        return Evaluation(deployment=self.name, at=now, took=0.0, lag=0.0, explanation=explanation, changes=changes)

    def _explained(self, blind_spots: Sequence[BlindSpot], validation: Validation) -> Explanation:
        records = self._window.records()
        evidence = WindowEvidence(records.window(), records.window, self._awake)
        options = DiagnosisOptions(
            blind_spots=blind_spots,
            objective=self.objective,
            present=True,
            light=True,  # hundreds of deployments are remembered at once
            validation=validation,
        )
        found = diagnose(evidence, options)
        return replace(found, window=replace(found.window, addresses=self._addresses()))

    def resume(self, scrapes: Sequence[Scrape], incidents: Sequence[Incident]) -> None:
        """Take up what an earlier run left: the bodies of its newest minutes, and its open incidents."""
        self.book.restore(incidents)
        shift = time.monotonic() - time.time()
        for scrape in sorted(scrapes, key=lambda one: one.at):
            self._window.add(moved(scrape, shift))


def _budget(interval: float) -> CpuBudget:
    return CpuBudget(wall_seconds=late_after(interval) * _FORECASTING, steady=time.monotonic)


def _size(arrival: Arrival) -> int:
    return len(arrival.body or b"") if isinstance(arrival, Scrape) else 0


def moved(scrape: Scrape, shift: float) -> Scrape:
    """Return a scrape of an earlier run with its steady time in terms of this run's clock."""
    return Scrape(
        server=scrape.server,
        kind=scrape.kind,
        at=scrape.at,
        mono=scrape.at + shift,
        took=scrape.took,
        body=scrape.body,
        error=scrape.error,
        name=scrape.name,
    )
