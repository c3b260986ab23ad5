"""A span of each message that is posted, by OpenTelemetry's semantic conventions for HTTP clients.

Source: https://opentelemetry.io/docs/specs/semconv/http/http-spans/. Of the URL only the server is told, as the
rest may be a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from diagnostics.service.own.metrics import OwnMetrics
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
