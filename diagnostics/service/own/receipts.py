"""Whether a collector takes what the service sends of itself: one line when it does not, another when it does again.

What the SDK and its exporters log may hold headers and addresses with secrets, so nothing of it is passed on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from diagnostics.service.own.metrics import FaultPart, OwnMetrics
from diagnostics.service.own.telemetry import OtelSignal

log = logging.getLogger(__name__)
_SDK = logging.getLogger("opentelemetry")
# It shows headers that it cannot read.
logging.getLogger("opentelemetry.util.re").disabled = True


class SdkLogCapture(logging.Handler):
    """Takes what the SDK logs, of which only what cannot be a secret is of use."""

    def __init__(self) -> None:
        super().__init__()
        self._here = threading.local()

    def begin(self) -> None:
        """Hear all that is logged from now on, so that nobody else does."""
        _SDK.handlers[:], _SDK.propagate = [self], False

    def end(self) -> None:
        """Hear nothing any more."""
        _SDK.handlers[:], _SDK.propagate = [], True

    def emit(self, record: logging.LogRecord) -> None:
        """Take a record of the thread that is sending."""
        for found in record.args if isinstance(record.args, tuple) else ():
            if isinstance(found, Enum):
                self.note(found.name)
            elif isinstance(found, int) and 100 <= found < 600:
                self.note(f"HTTP {found}")
            elif isinstance(found, BaseException):
                self.note(type(found).__name__)

    def forget(self) -> None:
        """Begin again, in this thread."""
        self._here.reason = "no answer"

    def note(self, reason: str) -> None:
        """Remember why, in this thread."""
        self._here.reason = reason

    @property
    def reason(self) -> str:
        """Why nothing was taken."""
        return str(self._here.reason)


class Receipt:
    """Logs when a collector takes nothing, and when it takes again: once each.

    Attributes:
        takes: whether it took what was sent last.

    """

    def __init__(self, signal: OtelSignal, metrics: OwnMetrics, captured: SdkLogCapture) -> None:
        self._what, self._where, self._metrics, self._captured = f"own {signal.name}", signal.shown, metrics, captured
        self.takes = True

    @contextmanager
    def expected(self) -> Iterator[Callable[[bool], None]]:
        """Call what wants to know whether it was taken; what raises was not."""
        taken = False

        def reported(good: bool) -> None:
            nonlocal taken
            taken = good

        self._captured.forget()
        try:
            yield reported
        except Exception as error:  # noqa: BLE001 - whatever it fails at, the thread that sends must go on
            self._captured.note(type(error).__name__)
        self._report(taken)

    def _report(self, taken: bool) -> None:
        reason, sending = self._captured.reason, f"sending {self._what} to {self._where}"
        if taken:
            self._metrics.faults.works(sending)
        else:
            self._metrics.errors.labels("own telemetry").inc()
            self._metrics.faults.failed(sending, reason, FaultPart.OWN_TELEMETRY)
        if self.takes and not taken:
            log.warning("%s are not taken by %s, and are lost meanwhile: %s", self._what, self._where, reason)
        elif taken and not self.takes:
            log.info("%s are taken again by %s", self._what, self._where)
        self.takes = taken


class MonitoredSpanExporter(SpanExporter):
    """An exporter of spans with its receipt."""

    def __init__(self, exporter: SpanExporter, receipt: Receipt) -> None:
        self._exporter, self._receipt, self._ended = exporter, receipt, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        if self._ended:
            return result
        with self._receipt.expected() as reported:
            result = self._exporter.export(spans)
            reported(result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        """End at once, also what is being tried again; a second time does nothing."""
        if not self._ended:
            self._ended = True
            self._exporter.shutdown()


class MonitoredMetricExporter(MetricExporter):
    """An exporter of metrics with its receipt."""

    def __init__(self, exporter: MetricExporter, receipt: Receipt) -> None:
        super().__init__()
        self._exporter, self._receipt, self._ended = exporter, receipt, False

    def export(self, metrics_data: Any, timeout_millis: float = 10_000, **more: Any) -> MetricExportResult:
        result = MetricExportResult.FAILURE
        if self._ended:
            return result
        with self._receipt.expected() as reported:
            result = self._exporter.export(metrics_data, timeout_millis, **more)
            reported(result is MetricExportResult.SUCCESS)
        return result

    def shutdown(self, timeout_millis: float = 30_000, **more: Any) -> None:
        """End at once, also what is being tried again; a second time does nothing."""
        if not self._ended:
            self._ended = True
            self._exporter.shutdown(timeout_millis, **more)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
