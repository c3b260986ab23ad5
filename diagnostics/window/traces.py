"""Spans of many exports, put together into requests: late, missing, duplicated and absurd ones included.

Triton's exporter sends a batch about every five seconds, a member's span before its parent's, and drops spans when its
queue is full. So nothing is decided before a window is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from diagnostics.errors import MalformedBody
from diagnostics.window.visits import Outer, TracedRequest, TracedVisit, front_of, outer_spans, visit_of
from diagnostics.wire.spans import RANKS, Span, rank
from diagnostics.wire.spans_json import Recorded, recorded
from diagnostics.wire.trace_export import read_spans

MAX_SPANS = 400_000
"""Kept at once, about 400 MB; beyond, half of all traces are dropped by their ids, then half of the rest, and so on."""
# What a span takes; of it a mark: its time, and its place in a dictionary.
_BYTES_OF_A_SPAN, _BYTES_OF_A_MARK = 1024, 48
# Traces are kept twice as often again only once that would fill half of the room: not back and forth.
_ROOM_FOR_TWICE = 4
MAX_SPANS_PER_TRACE = 20_000
"""A streamed answer of 2,000 tokens makes 4,000 spans; a longer trace is a loop in somebody's instrumentation."""


@dataclass(slots=True)
class SpanCounts:
    """What became of the bodies and spans that arrived.

    `unreadable` counts bodies that held no spans at all, `reason` says why the newest did not. `orphaned` are model
    spans whose parent is missing, `unreachable` those below no root. `kept_share` is the share of traces that there
    was room for, here and where they were received. `unauthenticated` came over the network from senders that nobody
    vouches for.
    """

    bodies: int = 0
    unreadable: int = 0
    reason: str = ""
    received: int = 0
    corrupt: int = 0
    duplicated: int = 0
    dropped: int = 0
    unauthenticated: int = 0
    orphaned: int = 0
    unreachable: int = 0
    kept_share: float = 1.0


class Traces:
    """The traced requests of a window, in order of arrival."""

    def __init__(self, requests: Sequence[TracedRequest] = (), counts: SpanCounts | None = None) -> None:
        self.requests = requests
        self.counts = counts or SpanCounts()
        self._visits: dict[str, list[tuple[TracedRequest, TracedVisit]]] | None = None

    def visits(self, model: str) -> Sequence[tuple[TracedRequest, TracedVisit]]:
        """Return the visits to a model, each with the request that it belongs to."""
        if self._visits is None:
            self._visits = {}
            for request in self.requests:
                for visit in request.visits():
                    self._visits.setdefault(visit.model, []).append((request, visit))
        return self._visits.get(model, ())

    def roots(self, model: str) -> Iterator[TracedRequest]:
        """Yield the requests that called a model or ensemble themselves."""
        return (request for request, visit in self.visits(model) if visit is request.root)


def weight(span: Span) -> int:
    """Return how many usual spans take as much memory: one that is full of long names and events takes several."""
    texts = len(span.name) + len(span.service) + len(span.model) + len(span.version) + len(span.instance)
    return 1 + (texts + _BYTES_OF_A_MARK * len(span.marks)) // _BYTES_OF_A_SPAN


def _weight_of(spans: Mapping[str, Span]) -> int:
    return sum(map(weight, spans.values()))


class SpanStore:
    """Collects export bodies, bounded; `traces()` puts them together."""

    def __init__(self, max_spans: int | None = None) -> None:
        self.counts = SpanCounts()
        self._max = MAX_SPANS if max_spans is None else max_spans
        self._traces: dict[str, dict[str, Span]] = {}
        self._held = 0
        self._halvings = 0
        self._kept = self._came = 0.0

    @property
    def bytes_held(self) -> int:
        """About how many bytes the spans take that are kept."""
        return self._held * _BYTES_OF_A_SPAN

    def add(self, body: bytes, at: float | None = None) -> None:
        """Take one export body, read at Unix second `at`; one that cannot be read is counted, with the reason."""
        about = recorded(body) or Recorded()
        before = self.counts.received
        self.counts.bodies += 1
        try:
            corrupt = read_spans(body, self._take, at)
        except MalformedBody as error:
            self.counts.unreadable += 1
            self.counts.reason = error.what
            return
        self._note(self.counts.received - before, corrupt, about)

    def _note(self, spans: int, corrupt: int, about: Recorded) -> None:
        """Count what is to be said of spans that were taken, and of those that came with them and are corrupt."""
        self.counts.received += corrupt + about.corrupt
        self.counts.corrupt += corrupt + about.corrupt
        self.counts.unauthenticated += 0 if about.vouched else spans
        self._weigh(spans, about.share)

    def _weigh(self, spans: int, share: float) -> None:
        """Add spans, or take them off, that were this share of what came to their receiver."""
        self._kept += spans
        self._came += spans / share
        self._tell_share()

    def _tell_share(self) -> None:
        # Whoever leaves traces out does so by the same ranks: what both leave out is not left out twice.
        received = self._kept / self._came if self._came else 1.0
        self.counts.kept_share = min(0.5**self._halvings, received)

    def _take(self, span: Span) -> None:
        self.counts.received += 1
        if self._halvings and not self._chosen(span.trace):
            self.counts.dropped += 1
            return
        trace = self._traces.get(span.trace)
        if trace is None:
            trace = self._traces[span.trace] = {}
        if span.id in trace:
            self.counts.duplicated += 1
        elif len(trace) >= MAX_SPANS_PER_TRACE:
            self.counts.dropped += 1
        else:
            trace[span.id] = span
            self._held += weight(span)
            if self._held > self._max:
                self._halve()

    def _chosen(self, trace: str) -> bool:
        return rank(trace) < RANKS >> self._halvings

    def _halve(self) -> None:
        """Leave half of the traces out, and the oldest of the others where that makes no room.

        Whoever makes up ids can give all of them a low rank: they take each other's room, and no more.
        """
        self._halvings = min(self._halvings + 1, 32)
        self._tell_share()
        self._drop([trace for trace in self._traces if not self._chosen(trace)])
        if self._held > self._max:
            oldest, room = [], self._held - self._max / 2
            for trace, spans in self._traces.items():
                if room <= 0:
                    break
                oldest.append(trace)
                room -= _weight_of(spans)
            self._drop(oldest)

    def _drop(self, traces: Iterable[str]) -> None:
        for trace in traces:
            spans = self._traces.pop(trace)
            self._held -= _weight_of(spans)
            self.counts.dropped += len(spans)

    def held(self) -> HeldSpans:
        """Return the spans taken so far, whatever comes or goes later."""
        return HeldSpans(tuple(tuple(spans.values()) for spans in self._traces.values()), replace(self.counts))

    def traces(self) -> Traces:
        """Return the requests of all spans taken so far."""
        return self.held().traces()

    def forget(self, before: float, beyond: float = inf) -> None:
        """Let go of traces that ended before Unix second `before`, or all of whose spans ended after `beyond`.

        Where that makes room, more is kept again.
        """
        first, last = before * 1e9, beyond * 1e9
        old = [
            trace
            for trace, spans in self._traces.items()
            if all(span.end < first or span.end > last for span in spans.values())
        ]
        self._held -= sum(_weight_of(self._traces.pop(trace)) for trace in old)
        if self._halvings and self._held < self._max / _ROOM_FOR_TWICE:
            self._halvings -= 1
            self._tell_share()


@dataclass(frozen=True, slots=True)
class HeldSpans:
    """The spans of a moment, trace by trace, and what had become by then of those that arrived."""

    spans: tuple[tuple[Span, ...], ...]
    counts: SpanCounts

    def traces(self) -> Traces:
        """Return their requests."""
        counts = replace(self.counts, orphaned=0, unreachable=0)
        requests = [request for spans in self.spans for request in _requests({one.id: one for one in spans}, counts)]
        requests.sort(key=lambda request: request.root.start)
        return Traces(requests, counts)


def _requests(spans: Mapping[str, Span], counts: SpanCounts) -> Iterable[TracedRequest]:
    """Yield a request per outermost model span of a trace; count the model spans that belong to none."""
    children: dict[str, list[Span]] = {}
    roots, models = [], 0
    for span in spans.values():
        if span.parent:
            children.setdefault(span.parent, []).append(span)
        if span.model:
            models += 1
            if not _has_model_above(span, spans):
                roots.append(span)
    reached = 0
    for root in roots:
        visit, below = visit_of(root, children)
        reached += below
        if root.nested and root.parent not in spans:
            counts.orphaned += below
            continue
        yield TracedRequest(
            trace=root.trace,
            service=root.service,
            root=visit,
            front=front_of(root, spans),
            outer=outer_spans(root, spans),
        )
    counts.unreachable += models - reached


def _has_model_above(span: Span, spans: Mapping[str, Span]) -> bool:
    parent = spans.get(span.parent)
    return parent is not None and bool(parent.model)


__all__ = ["Outer", "SpanStore", "TracedRequest", "TracedVisit", "Traces"]
