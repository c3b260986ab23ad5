"""What does not work in the service itself, from its first failure until it works again."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, PlatformCollector, ProcessCollector

from diagnostics import __version__
from diagnostics.service.allocation import resident_bytes
from diagnostics.service.own.lags import EvaluationLags, late_after
from diagnostics.service.own.tracer import OFF, Tracer
from diagnostics.units import Unit
from diagnostics.wire.redact import scrub_shapes

# What fails in so many ways at once needs no longer list.
MOST = 100


class FaultPart(StrEnum):
    """A part of the service that can fail while the others go on."""

    CLOCK = "clock"
    DELIVER = "deliver"
    DISCOVERY = "discovery"
    EVALUATE = "evaluate"
    FLEET = "fleet"
    HISTORY = "history"
    HTTP = "http"
    OWN_TELEMETRY = "own telemetry"
    RELOAD = "reload"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFault:
    """Something that fails. Times are Unix seconds.

    Attributes:
        what: what is being tried, as in `writing the history`.
        part: the part of the service that tries it.
        reason: why it failed last, in one line.
        since: when it failed first.
        last: when it failed last.
        times: how often it failed.

    """

    what: str
    part: str
    reason: str
    since: float
    last: float
    times: int = 1

    def reported(self, now: float) -> str:
        """Return it as a line at Unix second `now`."""
        lasted = Unit.SECONDS.show(max(0.0, now - self.since))
        often = "once" if self.times == 1 else f"{self.times} times"
        return f"{self.what} fails ({often} in {lasted}): {self.reason}"


class ServiceFaults:
    """Those that last, by what fails. For any thread."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._lasting: dict[str, ServiceFault] = {}

    def failed(self, what: str, reason: str, part: str) -> None:
        """Note a failure of a `FaultPart`; whatever fails beyond `MOST` at once is not noted."""
        now, reason = self._clock(), scrub_shapes(reason)
        with self._lock:
            known = self._lasting.get(what)
            if known is not None:
                self._lasting[what] = replace(known, reason=reason, last=now, times=known.times + 1)
            elif len(self._lasting) < MOST:
                self._lasting[what] = ServiceFault(what=what, part=part, reason=reason, since=now, last=now)

    def works(self, what: str) -> None:
        """Note that something works; costs next to nothing while it did before."""
        if what in self._lasting:
            with self._lock:
                self._lasting.pop(what, None)

    def count(self, part: str) -> int:
        """Return how many failures of a part last."""
        return sum(one.part == part for one in self.lasting())

    def lasting(self) -> list[ServiceFault]:
        """Return what fails now, the oldest first."""
        with self._lock:
            return sorted(self._lasting.values(), key=lambda one: (one.since, one.what))


# From an idle deployment of one model to one of a hundred.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class OwnMetrics:
    """One registry per service, so that two in one process do not mix.

    Attributes:
        registry: what `/metrics` renders.
        tracer: makes spans of what the service does; off unless someone wants them.
        rounds: rounds of reads by server and outcome (`ok`, `failed`, `skipped`).
        round_seconds: how long a server's last round took.
        evaluation_seconds: thread time of one verdict.
        lags: how long each deployment waits for a verdict.
        evaluation_lag: of each deployment, from the newest scrape to its last verdict, or the time for which what came
            waits for one if that is more. It is read when the page is made, so it grows while a verdict is being made.
        evaluation_late: whether that wait is longer than `lags.late_after`, 0 or 1.
        queue_length: what waits, by queue.
        dropped: what a full queue let fall, by queue.
        errors: what went wrong, by part.
        spans: spans that arrived, by outcome (`accepted`, `left_out` of a share of the traces, `corrupt`, `refused`,
            `unassigned`).
        spans_kept_share: share of a deployment's traces that is kept.
        deliveries: messages to Alertmanagers and webhooks, by receiver and outcome (`ok`, `failed`, `dropped`).
        incidents: open incidents by deployment.
        entries_refused: entries of what servers say that could not be read, in the newest window of a deployment.
        window_bytes: memory of what is kept of a server, about; of a deployment's spans where the server is empty.
        discovered: servers that a source of discovery names.
        discovery_refused: entries of that source that cannot be used.
        refused: HTTP requests that were rejected, and connections that gave way to newer ones, by reason.
        page_seconds: processor time of the newest page of metrics.
        faults: what fails now, in words.
        lasting_faults: how many of these there are.

    """

    def __init__(self) -> None:
        self.tracer: Tracer = OFF
        own = self.registry = CollectorRegistry()
        ProcessCollector(registry=own)
        PlatformCollector(registry=own)
        Info("diag_build", "The running version.", registry=own).info({"version": __version__})
        self.rounds = Counter("diag_rounds", "Rounds of reads.", ("server", "outcome"), registry=own)
        self.round_seconds = Gauge("diag_round_seconds", "How long the last round took.", ("server",), registry=own)
        self.evaluation_seconds = Histogram(
            "diag_evaluation_seconds", "Processor time of a verdict.", buckets=_SECONDS, registry=own
        )
        self._measure_lags(own)
        self.queue_length = Gauge("diag_queue_length", "What waits.", ("queue",), registry=own)
        self.dropped = Counter("diag_dropped", "What a full queue let fall.", ("queue",), registry=own)
        self.errors = Counter("diag_errors", "What went wrong, by part of the service.", ("part",), registry=own)
        self.spans = Counter("diag_spans", "Spans that arrived.", ("outcome",), registry=own)
        self.spans_kept_share = Gauge(
            "diag_spans_kept_share", "Share of the traces that is kept.", ("deployment",), registry=own
        )
        self.deliveries = Counter("diag_deliveries", "Messages to receivers.", ("receiver", "outcome"), registry=own)
        self.entries_refused = Gauge(
            "diag_entries_refused", "Entries of what servers say that cannot be read.", ("deployment",), registry=own
        )
        self.window_bytes = Gauge(
            "diag_window_bytes",
            "Memory of what is kept of a server, about; of spans where the server is empty.",
            ("deployment", "server"),
            registry=own,
        )
        resident = Gauge("diag_resident_memory_bytes", "Memory of the whole service.", registry=own)
        resident.set_function(resident_bytes)
        self.incidents = Gauge("diag_incidents_open", "Open incidents.", ("deployment",), registry=own)
        self._count_found(own)
        self.refused = Counter("diag_http_refused", "Requests that were turned away.", ("reason",), registry=own)
        self.page_seconds = Gauge("diag_metrics_page_seconds", "Processor time of this page.", registry=own)
        self._begin_at_zero()
        self.faults = ServiceFaults()
        self.lasting_faults = Gauge("diag_faults", "What fails in the service itself now.", registry=own)
        self.lasting_faults.set_function(lambda: len(self.faults.lasting()))
        by_part = Gauge("diag_part_faults", "What fails now, by part of the service.", ("part",), registry=own)
        for part in FaultPart:
            by_part.labels(part.value).set_function(partial(self.faults.count, part))

    def _measure_lags(self, own: CollectorRegistry) -> None:
        self.lags = EvaluationLags()
        self.evaluation_lag = Gauge(
            "diag_evaluation_lag_seconds",
            "From the newest scrape to its verdict; while one is awaited, for how long if that is more.",
            ("deployment",),
            registry=own,
        )
        self.evaluation_late = Gauge(
            "diag_evaluation_late",
            "Whether a verdict is awaited for longer than 3 intervals, and than 30 s.",
            ("deployment",),
            registry=own,
        )

    def _count_found(self, own: CollectorRegistry) -> None:
        self.discovered = Gauge(
            "diag_discovery_servers", "Servers that a source of discovery names.", ("source",), registry=own
        )
        self.discovery_refused = Gauge(
            "diag_discovery_refused", "Entries of a source of discovery that cannot be used.", ("source",), registry=own
        )

    def watch_lag(self, deployment: str, interval: float) -> None:
        """Export how late verdicts on a deployment are, whose servers are read every `interval` seconds."""
        limit = late_after(interval)
        self.evaluation_lag.labels(deployment).set_function(lambda: self.lags.lag(deployment))
        self.evaluation_late.labels(deployment).set_function(lambda: self.lags.waited(deployment) > limit)

    def forget_server(self, server: str) -> None:
        """Export a server's rounds no longer: found servers come and go without end."""
        for outcome in ("ok", "failed", "skipped"):
            with contextlib.suppress(KeyError):
                self.rounds.remove(server, outcome)
        with contextlib.suppress(KeyError):
            self.round_seconds.remove(server)

    def _begin_at_zero(self) -> None:
        """Export what is known to be counted before it happens: the increase to a first event is seen only from 0."""
        for counter, values in (
            (self.dropped, ("evaluation", "history")),
            (self.errors, ("collect", "deliver", "discovery", "evaluate", "exposition", "history", "http", "reload")),
            (self.spans, ("accepted", "corrupt", "left_out", "refused", "unassigned")),
            (self.refused, ("attempts", "connections", "content-type", "credentials", "host", "origin", "size")),
        ):
            for value in values:
                counter.labels(value)
