"""One connection: uvicorn's, with a limit to how slow a client may be."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds to send a request's headers, and to take what was answered.
HEADERS_WITHIN = 10.0
TAKEN_WITHIN = 30.0


class Connection(H11Protocol):
    """Closed when headers trickle in, or when an answer is not taken."""

    _headers_due: asyncio.TimerHandle | None = None
    _answer_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._headers_came()
        self._answer_taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what arrived; while it is no whole request the time for its headers runs."""
        super().data_received(data)
        self._watch_headers()

    def _watch_headers(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._headers_came()
        elif self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(HEADERS_WITHIN, self.transport.abort)

    def on_response_complete(self) -> None:
        """Wait for the next request, for as long as connections are kept."""
        self._headers_came()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client some time to take what was written."""
        super().pause_writing()
        if self._answer_due is None:
            self._answer_due = self.loop.call_later(TAKEN_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        self._answer_taken()
        super().resume_writing()

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _answer_taken(self) -> None:
        if self._answer_due is not None:
            self._answer_due.cancel()
            self._answer_due = None
