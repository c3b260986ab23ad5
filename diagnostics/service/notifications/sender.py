"""A span of each message that is posted, by OpenTelemetry's semantic conventions for HTTP clients.

Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/. Of the URL only the server is shown, as the rest
may be a secret.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from diagnostics.service.log_lines import LoggedEvent, log_event
from diagnostics.service.own.metrics import FaultPart, OwnMetrics, ServiceFaults
from diagnostics.service.own.tracer import SpanRole, server_of
from exporters.sinks.posting import DeliveryFailure, Poster


class Posts(Protocol):
    """What posts a message and returns the status of the answer."""

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post; DeliveryFailure when it was not taken."""
        ...


class TracedPoster:
    """A poster whose posts are seen."""

    def __init__(self, poster: Poster, metrics: OwnMetrics) -> None:
        self._poster, self._metrics = poster, metrics
        self._known = {"http.request.method": "POST", **server_of(poster.shown)}

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post one message; return the status.

        Raises:
            DeliveryFailure: it was not taken.

        """
        with self._metrics.tracer.span("POST", self._known, kind=SpanRole.CLIENT) as span:
            try:
                status = self._poster.post(body, headers)
            except DeliveryFailure as failure:
                if failure.status:
                    span.note("http.response.status_code", failure.status)
                span.failed(str(failure.status or "_OTHER"), str(failure))
                raise
            span.note("http.response.status_code", status)
            return status


# A memory that takes longer is in trouble, and must not delay a notification.
PATIENCE_TO_SETTLE = 2.0
# Waits until all that was taken so far is remembered; at most so many seconds.
Settle = Callable[[float], None]


class SettledPoster:
    """A poster that waits for the memory before each post."""

    def __init__(self, poster: Posts, settle: Settle) -> None:
        self._poster, self._settle = poster, settle

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post one message; return the status.

        Raises:
            DeliveryFailure: it was not taken.

        """
        self._settle(PATIENCE_TO_SETTLE)
        return self._poster.post(body, headers)


log = logging.getLogger(__name__)
FIRST_PAUSE = 1.0


class Work(Protocol):
    """What a sender does. Both are called in its thread, with steady seconds."""

    def due(self, now: float, /) -> float | None:
        """Return when there is something to deliver; None while there is nothing."""
        ...

    def deliver(self, now: float, /) -> None:
        """Deliver one batch.

        Raises:
            DeliveryFailure: it was not taken.

        """
        ...


class DeliveryThread:
    """Delivers a receiver's work.

    Attributes:
        name: the receiver as logs and metrics show it: no credentials, no path.

    """

    def __init__(
        self,
        name: str,
        work: Work,
        count: Callable[[str], None],
        *,
        longest_pause: float,
        first_pause: float = FIRST_PAUSE,
        faults: ServiceFaults | None = None,
    ) -> None:
        """Begin with nothing under way.

        Args:
            name: for logs.
            work: what to deliver.
            count: called with the outcome of each attempt: `ok` or `failed`.
            longest_pause: seconds between attempts, at most, however often it failed.
            first_pause: seconds after the first failure; doubled with each further one.
            faults: called when the receiver fails, with the reason, and when it works again.

        """
        self.name, self._work, self._count = name, work, count
        self._first_pause, self._longest_pause = first_pause, longest_pause
        self._faults = faults or ServiceFaults()
        self._failures, self._not_before = 0, 0.0
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=f"tell {name}", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def nudge(self) -> None:
        """Announce that there may be new work; returns at once."""
        with self._changed:
            self._changed.notify()

    def stop(self, patience: float) -> None:
        """Deliver what waits unless the receiver is failing, then end; waits at most `patience` seconds."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(patience)

    def _run(self) -> None:
        while self._wait():
            self._attempt()

    def _wait(self) -> bool:
        """Return True when there is something to do, False when it is time to end."""
        with self._changed:
            while True:
                now = time.monotonic()
                due = self._work.due(now)
                if self._stopped:
                    return due is not None and due <= now and not self._failures
                at = None if due is None else max(due, self._not_before)
                if at is not None and at <= now:
                    return True
                self._changed.wait(None if at is None else at - now)

    def _attempt(self) -> None:
        try:
            self._work.deliver(time.monotonic())
        except DeliveryFailure as failure:
            self._failed(str(failure), failure.retry_after)
        except Exception as error:
            log.exception("telling %s", self.name)
            self._failed(type(error).__name__, 0.0)
        else:
            self._count("ok")
            self._faults.works(self.name)
            if self._failures:
                text = f"{self.name} takes messages again, after {self._failures} failures"
                log_event(log, LoggedEvent.RECEIVER_RECOVERED, text, receiver=self.name, failures=self._failures)
            self._failures = 0

    def _failed(self, reason: str, retry_after: float) -> None:
        self._count("failed")
        self._faults.failed(self.name, reason, FaultPart.DELIVER)
        self._failures += 1
        if self._failures == 1:
            text = f"{self.name} did not take a message, which is kept and sent again: {reason}"
            log_event(log, LoggedEvent.RECEIVER_FAILED, text, receiver=self.name, err=reason)
        pause = min(self._first_pause * 2.0 ** min(self._failures - 1, 30), self._longest_pause)
        # Many services that lost one receiver must not come back to it at the same moment.
        wait = max(pause * random.uniform(0.75, 1.0), min(retry_after, self._longest_pause))  # noqa: S311
        self._not_before = time.monotonic() + wait
