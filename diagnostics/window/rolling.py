"""The spans of the newest minutes, and what became of those that arrived in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from diagnostics.window.parsed import Parsed, ScrapeParser
from diagnostics.window.traces import HeldSpans, SpanCounts, SpanStore
from diagnostics.window.window import Window, WindowBuilder
from diagnostics.wire.records import BodyKind, Scrape
from diagnostics.wire.spans import Recorded, Span

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
        self._report_share()


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


# Of which a verdict is about, and how many spans are kept of it, where nothing else is said.
WINDOW_SECONDS = 300.0
MOST_SPANS = 60_000
# What holds until it is read again: the newest of each is part of every window, however old.
LASTING = frozenset({BodyKind.CONFIG, BodyKind.SERVER, BodyKind.REPOSITORY})
# Beyond, what was said longest ago is let go of: a server that invents new models for ever must not fill the memory.
MOST_LASTING = 20_000
MOST_BYTES = 192 * 2**20
"""Of what one server said. Beyond, its oldest rounds are let go of, and its windows are shorter: others keep theirs.

A thousand models that are read every two seconds take 180 MB in five minutes.
"""
# Rounds come at whole multiples of an interval: the window's edge lies between two, so that a millisecond, the
# precision of a recording, does not decide whether a round is part of it.
SLACK = 0.5


@dataclass(frozen=True, slots=True)
class Records:
    """What a window is put together from; far smaller than the window, and the same whenever it is asked for."""

    name: str
    parsed: tuple[Parsed, ...]
    spans: HeldSpans

    def window(self) -> Window:
        """Return the window."""
        builder = WindowBuilder()
        for parsed in self.parsed:
            builder.add_parsed(parsed)
        return builder.build(self.name, self.spans.traces())


class RollingWindow:
    """Takes scrapes in time order and gives windows of the newest `seconds`. Not for use from several threads at once.

    Attributes:
        name: the deployment's.
        seconds: how long the windows are.

    """

    def __init__(self, name: str, seconds: float, *, max_spans: int = MOST_SPANS) -> None:
        """Begin empty.

        Args:
            name: the deployment's.
            seconds: length of the windows; should hold at least three rounds.
            max_spans: how many spans are kept at once; beyond, whole traces are left out, chosen by their ids.

        """
        self.name, self.seconds = name, seconds
        self._parser = ScrapeParser()
        self._recent: deque[Parsed] = deque()
        self._lasting: dict[tuple[str, BodyKind, str], Parsed] = {}
        self._spans = RecentSpans(seconds, max_spans)
        self._newest = float("-inf")
        self._newest_at = 0.0
        self._bytes: dict[str, int] = {}

    def allow_spans(self, most: int) -> None:
        """Keep at most so many spans from now on."""
        self._spans.allow(most)

    @property
    def bytes_by_server(self) -> Mapping[str, int]:
        """About how many bytes is kept of what each server said."""
        return self._bytes

    @property
    def bytes_of_spans(self) -> int:
        """About how many bytes the spans take that are kept."""
        return self._spans.bytes_held

    def add(self, scrape: Scrape) -> None:
        """Take one scrape and let go of what has left the window."""
        if scrape.kind is not BodyKind.TRACES:
            parsed = self._parser.parse(scrape)
            self._recent.append(parsed)
            self._count(parsed, 1)
            if scrape.mono >= self._newest:
                self._newest, self._newest_at = scrape.mono, scrape.at
            self._let_go(self._newest - self.seconds - SLACK)
            if self._bytes[scrape.server] > MOST_BYTES:
                self._shorten(scrape.server)
        elif scrape.body is not None:
            self._spans.add(scrape.body, scrape.at)

    def add_spans(self, spans: Sequence[Span], at: float, about: Recorded) -> None:
        """Take spans that arrived at Unix second `at` and were read already, and what is recorded with them."""
        self._spans.add_read(spans, at, about)

    def window(self) -> Window:
        """Return the window that ends with the newest scrape; its start and end are 0 when nothing was read."""
        return self.records().window()

    def records(self) -> Records:
        """Return what the window that ends with the newest scrape is put together from."""
        self._spans.let_go(self._newest_at)
        since = self._newest - self.seconds - SLACK
        # Servers come in each other's way: what is too old may still wait behind what is not.
        recent = (one for one in self._recent if one.scrape.mono >= since or one.scrape.kind in LASTING)
        return Records(self.name, (*self._lasting.values(), *recent), self._spans.held())

    def _count(self, parsed: Parsed, sign: int) -> None:
        server = parsed.scrape.server
        self._bytes[server] = self._bytes.get(server, 0) + sign * parsed.size

    def _shorten(self, server: str) -> None:
        """Let go of the oldest that one server said, until three quarters of its room are left."""
        left = self._bytes[server] - MOST_BYTES * 3 // 4
        kept: deque[Parsed] = deque()
        for key in [key for key in self._lasting if key[0] == server]:
            if left > 0:
                left -= self._lasting[key].size
                self._count(self._lasting.pop(key), -1)
        for parsed in self._recent:
            if left > 0 and parsed.scrape.server == server:
                left -= parsed.size
                self._count(parsed, -1)
            else:
                kept.append(parsed)
        self._recent = kept

    def forget(self, server: str) -> None:
        """Let go of everything that a server said."""
        self._bytes.pop(server, None)
        self._recent = deque(parsed for parsed in self._recent if parsed.scrape.server != server)
        self._lasting = {key: parsed for key, parsed in self._lasting.items() if key[0] != server}

    def _let_go(self, before: float) -> None:
        while self._recent and self._recent[0].scrape.mono < before:
            gone = self._recent.popleft()
            if gone.scrape.kind in LASTING and gone.content is not None:
                key = (gone.scrape.server, gone.scrape.kind, gone.scrape.name)
                if (replaced := self._lasting.pop(key, None)) is not None:
                    self._count(replaced, -1)
                self._lasting[key] = gone
            else:
                self._count(gone, -1)
        while len(self._lasting) > MOST_LASTING:
            self._count(self._lasting.pop(next(iter(self._lasting))), -1)
