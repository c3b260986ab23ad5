"""The spans of the newest minutes, and what became of those that arrived in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from diagnostics.window.traces import SpanCounts, SpanStore
from diagnostics.wire.spans import Span
from diagnostics.wire.spans_json import Recorded

# Walking through all that is kept costs as much as keeping it: once in so many seconds is often enough.
_SECONDS_BETWEEN_SWEEPS = 5.0


@dataclass(frozen=True, slots=True)
class _Arrival:
    """What one body added to the counts, and when (Unix seconds)."""

    at: float
    unreadable: int
    received: int
    corrupt: int
    duplicated: int
    dropped: int
    unauthenticated: int
    kept: float
    came: float


class RecentSpans(SpanStore):
    """A `SpanStore` that lets go of what is older than its span. Its counts are those of that span too."""

    def __init__(self, seconds: float, max_spans: int) -> None:
        super().__init__(max_spans)
        self._seconds = seconds
        self._arrivals: deque[_Arrival] = deque()
        self._swept = 0.0

    def add(self, body: bytes, at: float | None = None) -> None:
        """Take one export body that arrived at Unix second `at`."""
        before, kept, came = replace(self.counts), self._kept, self._came
        super().add(body, at)
        self._arrived(before, kept, came, at)

    def add_read(self, spans: Sequence[Span], at: float, about: Recorded) -> None:
        """Take the spans of a body that was read at Unix second `at`, and what was noted of them."""
        before, kept, came = replace(self.counts), self._kept, self._came
        self.counts.bodies += 1
        for span in spans:
            self._take(span)
        self._note(len(spans), 0, about)
        self._arrived(before, kept, came, at)

    def _arrived(self, before: SpanCounts, kept: float, came: float, at: float | None) -> None:
        if at is None:
            return
        self._arrivals.append(_between(before, self.counts, at, self._kept - kept, self._came - came))
        if abs(at - self._swept) >= _SECONDS_BETWEEN_SWEEPS:  # a clock may step back
            self.let_go(at)

    def let_go(self, now: float) -> None:
        """Forget spans that ended, and bodies that arrived, longer before Unix second `now` than its span.

        So are those that claim to be as much later than `now`: a clock that is wrong must not fill the room of others.
        """
        self._swept = now
        before, beyond = now - self._seconds, now + self._seconds
        self.forget(before, beyond)
        while self._arrivals and not before <= self._arrivals[0].at <= beyond:
            gone, counts = self._arrivals.popleft(), self.counts
            counts.bodies -= 1
            counts.unreadable -= gone.unreadable
            counts.received -= gone.received
            counts.corrupt -= gone.corrupt
            counts.duplicated -= gone.duplicated
            counts.dropped -= gone.dropped
            counts.unauthenticated -= gone.unauthenticated
            self._kept -= gone.kept
            self._came -= gone.came
        self._tell_share()


def _between(before: SpanCounts, after: SpanCounts, at: float, kept: float, came: float) -> _Arrival:
    return _Arrival(
        at,
        after.unreadable - before.unreadable,
        after.received - before.received,
        after.corrupt - before.corrupt,
        after.duplicated - before.duplicated,
        after.dropped - before.dropped,
        after.unauthenticated - before.unauthenticated,
        kept,
        came,
    )
