"""One connection: uvicorn's, with a limit to how slow a client may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

# Seconds to send a request's headers, and to take all of what was answered.
HEADERS_WITHIN = 10.0
TAKEN_WITHIN = 60.0
# Seconds in which a client that sends a body that nobody reads may see the answer instead of a reset.
SEEN_WITHIN = 1.0


class _Answering(NamedTuple):
    """What an answer uses of a transport."""

    transport: asyncio.Transport
    close: Callable[[], None]

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def is_closing(self) -> bool:
        return self.transport.is_closing()


class Connection(H11Protocol):
    """Closed when headers trickle in, when an answer is not taken, or when there is a body that nobody reads."""

    _headers_due: asyncio.TimerHandle | None = None
    _answer_due: asyncio.TimerHandle | None = None
    _ending = False

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
        if self._answering:
            self._headers_came()
        elif self._headers_due is None and not self.transport.is_closing():
            self._headers_due = self.loop.call_later(HEADERS_WITHIN, self.transport.abort)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def handle_events(self) -> None:
        """Answer what has arrived; an answer ends its connection by `end`."""
        super().handle_events()
        if self.cycle is not None:
            self.cycle.transport = cast(asyncio.Transport, _Answering(self.transport, self.end))

    def end(self) -> None:
        """Close the connection after an answer. What is left of a body is not read."""
        if self.conn.their_state is h11.SEND_BODY and not self._ending:
            self._ending = True
            self.flow.pause_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self.loop.call_later(SEEN_WITHIN, self.transport.abort)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request, for as long as connections are kept.

        A client that did not wait for the answer would have its requests served without others in between.
        """
        self._headers_came()
        if not self.flow.write_paused:
            self._answer_taken()
        if self.conn.trailing_data[0]:
            self.end()
        elif not self._ending:
            super().on_response_complete()

    def pause_writing(self) -> None:
        """Give the client some time to take the whole of what is answered."""
        super().pause_writing()
        if self._answer_due is None:
            self._answer_due = self.loop.call_later(TAKEN_WITHIN, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on writing."""
        if not self._answering:
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
