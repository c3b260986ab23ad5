"""Counts the objectives' events with each verdict, remembers them, and says how the objectives stand."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from diagnostics.diagnosis.incident import Incident
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.service.state import Evaluation
from diagnostics.slo.bins import HOUR, MINUTE, MINUTES_KEPT, NOTHING, Bins, BudgetCause, Tally, Together
from diagnostics.slo.replaying import ServerEvents, count_window, of_deployment
from diagnostics.slo.report import SloReport, report_on
from diagnostics.slo.slo import Slo, Triton
from diagnostics.store import slo_events
from diagnostics.store.statements import Apply
from exporters.sinks.exposition import EventKey, event_metrics, report_metrics

# Reckoning all windows of all objectives again for each page would cost more than counting.
_SECONDS_BETWEEN_REPORTS = 10.0
# Spans come some seconds after their requests: the newest round is counted with the next.
_BEHIND = 1


class SloMemory(Protocol):
    """What remembers events across restarts."""

    def put(self, apply: Apply) -> None: ...
    def slo_events(self, slo: Slo, since: float) -> Mapping[str, Bins]: ...


class SloKeeper(Collector):
    """Gets every verdict from the evaluator; asked from any thread.

    Attributes:
        slos: the objectives over Triton's requests; those over PromQL are Prometheus' to count.

    """

    def __init__(
        self, slos: Sequence[Slo], memory: SloMemory | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Take up what an earlier run counted.

        Args:
            slos: the objectives.
            memory: keeps events; None forgets them at the end.
            clock: Unix seconds.

        """
        self.slos = tuple(slo for slo in slos if isinstance(slo.sli, Triton))
        self._memory, self._clock, self._lock = memory, clock, threading.Lock()
        self._bins: dict[tuple[str, str], Bins] = {}
        self._reached: dict[str, dict[str, float]] = defaultdict(dict)
        self._unwritten: dict[tuple[str, str], int] = {}
        self._events: dict[EventKey, Tally] = {}
        self._causes: dict[tuple[str, BudgetCause], float] = defaultdict(float)
        self._reports: tuple[float, Sequence[SloReport]] = (float("-inf"), ())
        self._cleaned = float("-inf")
        for slo in self.slos if memory is not None else ():
            assert memory is not None
            for deployment, bins in memory.slo_events(slo, clock() - slo.period).items():
                self._bins[slo.name, deployment] = bins

    def start(self) -> None:
        """Nothing is done on one's own account."""

    def stop(self) -> None:
        """Write the minutes that are not over."""
        with self._lock:
            for key in list(self._unwritten):
                self._write(key, float("inf"))

    def consume(self, evaluation: Evaluation) -> None:
        """Count what a verdict's window shows beyond what was counted before."""
        evidence, name = evaluation.explanation.evidence, evaluation.deployment
        mine = [slo for slo in self.slos if of_deployment(slo, name)]
        if not mine or not isinstance(evidence, WindowEvidence):
            return
        with self._lock:
            into = {slo.name: self._bins.setdefault((slo.name, name), Bins()) for slo in mine}
            reached = self._reached[name]
            added = count_window(
                mine, evidence.window, evaluation.explanation, reached, into, behind=_BEHIND, whole=False
            )
            for one in added:
                self._add(name, one)
            for slo in mine:
                self._write((slo.name, name), evaluation.at // MINUTE * MINUTE)
            self._forget()

    def _add(self, deployment: str, one: ServerEvents) -> None:
        assert isinstance(one.slo.sli, Triton)
        key = (one.slo.name, deployment, one.server, one.slo.sli.model)
        self._events[key] = self._events.get(key, NOTHING) + one.tally
        for cause, bad in one.causes.items():
            self._causes[one.slo.name, cause] += bad
        # Minutes without events are written too: a pause of counting must not look like one of traffic.
        minute = int(one.until) // MINUTE * MINUTE
        known = self._unwritten.get((one.slo.name, deployment), minute)
        self._unwritten[one.slo.name, deployment] = min(minute, known)

    def _write(self, key: tuple[str, str], before: float) -> None:
        """Write the minutes of an objective that are not written and began before Unix second `before`."""
        since = self._unwritten.get(key)
        if since is None or since >= before:
            return
        slo = next(one for one in self.slos if one.name == key[0])
        for at, found in self._bins[key].minutes(since, before):
            if self._memory is not None:
                self._memory.put(slo_events.put_minute(slo, key[1], at, found))
        self._unwritten.pop(key)

    def _forget(self) -> None:
        now = self._clock()
        if 0 <= now - self._cleaned < HOUR:
            return
        self._cleaned = now
        longest = {slo.name: slo.period for slo in self.slos}
        for (name, _), bins in self._bins.items():
            bins.forget(now - longest[name] - HOUR, now - MINUTES_KEPT)

    def reports(self, period: float | None = None, incidents: Sequence[Incident] = ()) -> list[SloReport]:
        """Return how the objectives stand now.

        Args:
            period: over which budgets are reckoned; each objective's own by default.
            incidents: those of the time, so that causes can be linked to them.

        """
        now = self._clock()
        with self._lock:
            return [report_on(slo, self._seen(slo), now, period=period, incidents=incidents) for slo in self.slos]

    def recent(self) -> Sequence[SloReport]:
        """Return how the objectives stand, as of at most ten seconds ago, over their own periods."""
        now = time.monotonic()
        if now - self._reports[0] >= _SECONDS_BETWEEN_REPORTS:
            self._reports = (now, self.reports())
        return self._reports[1]

    def _seen(self, slo: Slo) -> Together:
        return Together(bins for (name, _), bins in self._bins.items() if name == slo.name)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics; how objectives stand is reckoned again every ten seconds."""
        if not self.slos:
            return
        with self._lock:
            events, causes = dict(self._events), dict(self._causes)
        yield from event_metrics(events, causes)
        yield from report_metrics(self.recent())

    def describe(self) -> Iterator[Metric]:
        """Yield nothing: what there is depends on what was counted."""
        return iter(())
