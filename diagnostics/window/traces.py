"""Traced requests: spans put together into visits to models, late, missing and absurd ones included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

from diagnostics.errors import MalformedBody
from diagnostics.wire.spans import (
    BANDS,
    COMPUTE_END,
    COMPUTE_INPUT_END,
    COMPUTE_OUTPUT_START,
    COMPUTE_START,
    QUEUE_START,
    RANKS,
    Recorded,
    Span,
    band,
    rank,
    recorded,
)
from diagnostics.wire.trace_export import read_spans

NANOSECOND = 1e-9
COMPUTE = "compute"
_MOST_CALLERS = 32
"""A request behind more services than this is a loop of parents."""


class TracedVisit(NamedTuple):
    """One request's way through one model; Unix nanoseconds.

    `queued`, `began`, `input_end`, `output_start` and `computed` are None where the span or event is missing: an
    ensemble, a cached answer and a refused request have no computation.
    """

    model: str
    version: str
    start: int
    end: int
    queued: int | None
    began: int | None
    input_end: int | None
    output_start: int | None
    computed: int | None
    below: tuple[TracedVisit, ...]

    @property
    def executed(self) -> bool:
        """Whether the model computed, and all instants of it are known and in order."""
        queued, began, output = self.queued, self.began, self.output_start
        if queued is None or began is None or self.input_end is None or output is None or self.computed is None:
            return False
        return queued <= began <= self.input_end <= output <= self.computed

    @property
    def queue_seconds(self) -> float | None:
        """Time from the scheduler to the backend; None without both instants."""
        return _seconds(self.queued, self.began)

    @property
    def input_seconds(self) -> float | None:
        """Time to gather the inputs."""
        return _seconds(self.began, self.input_end)

    @property
    def compute_seconds(self) -> float | None:
        """Time in the model itself, its whole batch's."""
        return _seconds(self.input_end, self.output_start)

    @property
    def output_seconds(self) -> float | None:
        """Time to hand the outputs over."""
        return _seconds(self.output_start, self.computed)

    @property
    def seconds(self) -> float:
        """Time from arrival in the core to release."""
        return (self.end - self.start) * NANOSECOND


class Outer(NamedTuple):
    """A span around Triton's: a service's or client's, with the time of its own between its start and end."""

    service: str
    name: str
    kind: int
    start: int
    end: int

    @property
    def seconds(self) -> float:
        """Length."""
        return (self.end - self.start) * NANOSECOND


class Front(NamedTuple):
    """What the server's frontend did with a request, Unix nanoseconds; None where an event is missing.

    `start` is the first byte read, `received` the whole request, `response` the first answer of the model, `sending`
    the first byte sent and `end` the last.
    """

    start: int
    received: int | None
    response: int | None
    sending: int | None
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One request to the server.

    Attributes:
        trace: the trace it belongs to; several requests of one trace were sent by one caller.
        service: the service that reported it.
        root: the visit to the model or ensemble that was called.
        front: the frontend's part around it; None where it was not traced.
        outer: the spans of callers around it, the nearest first.

    """

    trace: str
    service: str
    root: TracedVisit
    front: Front | None = None
    outer: Sequence[Outer] = ()

    @property
    def end_seconds(self) -> float:
        """When the server was done with it, Unix seconds."""
        return self.root.end * NANOSECOND

    @property
    def handling_seconds(self) -> float | None:
        """Time for which the frontend kept a request it had received, or an answer it had; None when not traced.

        An answer that comes after the model's own span (an engine with a thread of its own) is not waited for here.
        """
        front = self.front
        if front is None or None in (front.received, front.response, front.sending):
            return None
        before = max(self.root.start - (front.received or 0), 0)
        after = max((front.sending or 0) - max(front.response or 0, self.root.start), 0)
        return (before + after) * NANOSECOND

    @property
    def server_seconds(self) -> float:
        """Time in the server as its frontend saw it, else as its core did."""
        return (self.front.end - self.front.start) * NANOSECOND if self.front else self.root.seconds

    def visits(self) -> Iterator[TracedVisit]:
        """Yield the root and everything below it, parents first."""
        waiting = [self.root]
        while waiting:
            visit = waiting.pop()
            yield visit
            waiting.extend(visit.below)


def visit_of(root: Span, children: Mapping[str, Sequence[Span]]) -> tuple[TracedVisit, int]:
    """Return the visit of a model span with those below it, and how many model spans that are.

    Without recursion: a trace may be deeper than Python's stack. A span below itself is not entered twice.
    """
    order, seen = [root], {root.id}
    for span in order:
        for child in children.get(span.id, ()):
            if child.model and child.id not in seen:
                seen.add(child.id)
                order.append(child)
    made: dict[str, TracedVisit] = {}
    for span in reversed(order):
        marks, below = dict(span.marks), []
        for child in children.get(span.id, ()):
            if child.id in made:
                below.append(made.pop(child.id))
            elif child.name == COMPUTE and not child.model:
                marks.update(child.marks)
        made[span.id] = _visit(span, marks, tuple(sorted(below, key=_by_start)))
    return made[root.id], len(order)


def _by_start(visit: TracedVisit) -> tuple[int, int]:
    return visit.start, visit.end


def _visit(span: Span, marks: Mapping[str, int], below: tuple[TracedVisit, ...]) -> TracedVisit:
    return TracedVisit(
        span.model,
        span.version,
        span.start,
        span.end,
        marks.get(QUEUE_START),
        marks.get(COMPUTE_START),
        marks.get(COMPUTE_INPUT_END),
        marks.get(COMPUTE_OUTPUT_START),
        marks.get(COMPUTE_END),
        below,
    )


def _above(span: Span, spans: Mapping[str, Span]) -> Iterator[Span]:
    for _ in range(_MOST_CALLERS):
        parent = spans.get(span.parent)
        if parent is None:
            return
        yield parent
        span = parent


_ARRIVED = ("HTTP_RECV_START", "GRPC_WAITREAD_END")
_RECEIVED = ("HTTP_RECV_END", "GRPC_WAITREAD_END")
_RESPONSE = ("INFER_RESPONSE_COMPLETE",)
_SENDING = ("HTTP_SEND_START", "GRPC_SEND_START")
_SENT = ("HTTP_SEND_END", "GRPC_SEND_END")


def front_of(root: Span, spans: Mapping[str, Span]) -> Front | None:
    """Return what the frontend's span above a model span says, None without one.

    gRPC's span may begin while the server still waits for a request to read, so its read's end counts as the start.
    Triton's own trace files keep the frontend's events with the model's.
    """
    nearest = spans.get(root.parent)
    source = nearest if nearest is not None and nearest.service == root.service and not nearest.model else root
    if source is root and not any(name in root.marks for name in (*_ARRIVED, *_SENT)):
        return None
    start, end = _mark(source, _ARRIVED) or source.start, _mark(source, _SENT) or source.end
    return Front(
        min(start, root.start),
        _mark(source, _RECEIVED),
        _mark(source, _RESPONSE),
        _mark(source, _SENDING),
        max(end, root.end),
    )


def _mark(span: Span, names: tuple[str, ...]) -> int | None:
    return next((span.marks[name] for name in names if name in span.marks), None)


def outer_spans(root: Span, spans: Mapping[str, Span]) -> tuple[Outer, ...]:
    """Return the spans of other services above a model span, the nearest first."""
    return tuple(
        Outer(span.service, span.name, span.kind, span.start, span.end)
        for span in _above(root, spans)
        if span.service != root.service
    )


class Skew(NamedTuple):
    """How far a caller's clock is off at least: its span does not hold the call that it made."""

    service: str
    seconds: float


def clock_skew(request: TracedRequest) -> tuple[Skew, ...]:
    """Return the callers whose spans begin after, or end before, the call at the server that they wait for."""
    start = request.front.start if request.front else request.root.start
    end = request.front.end if request.front else request.root.end
    late = ((outer.service, max(outer.start - start, end - outer.end)) for outer in request.outer)
    return tuple(Skew(service, nanoseconds * NANOSECOND) for service, nanoseconds in late if nanoseconds > 0)


def _seconds(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else (end - start) * NANOSECOND


MAX_SPANS = 400_000
"""Kept at once, about 400 MB; beyond, half of all traces are dropped by their ids, then half of the rest, and so on."""
# What a span takes; of it a mark: its time, and its place in a dictionary.
_BYTES_OF_A_SPAN, _BYTES_OF_A_MARK = 1024, 48
# Traces are kept twice as often again only once that would fill half of the room: not back and forth.
_ROOM_FOR_TWICE = 4
# Traces of honest ids fill the parts of the ranks alike: one with twice its part is full, and gives way where that
# makes as much room as this part of all.
_FULL, _ROOM_OF_BANDS = 2, 8
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

    def allow(self, max_spans: int) -> None:
        """Keep at most so many spans from now on; the next that come make room."""
        self._max = max_spans

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
        self._report_share()

    def _report_share(self) -> None:
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
        if self._drop_from_full_bands():
            return
        self._halvings = min(self._halvings + 1, 32)
        self._report_share()
        self._drop([trace for trace in self._traces if not self._chosen(trace)])
        if self._held > self._max:
            oldest, room = [], self._held - self._max / 2
            for trace, spans in self._traces.items():
                if room <= 0:
                    break
                oldest.append(trace)
                room -= _weight_of(spans)
            self._drop(oldest)

    def _drop_from_full_bands(self) -> bool:
        """Drop the oldest traces of each part of the ranks that holds far more than others; False if none does."""
        limit, part = RANKS >> self._halvings, self._max / BANDS
        weights = [0] * BANDS
        for trace, spans in self._traces.items():
            weights[band(trace, limit)] += _weight_of(spans)
        beyond = [weight - part if weight > _FULL * part else 0.0 for weight in weights]
        if sum(beyond) < self._max / _ROOM_OF_BANDS:
            return False
        oldest = []
        for trace, spans in self._traces.items():
            if beyond[at := band(trace, limit)] > 0:
                oldest.append(trace)
                beyond[at] -= _weight_of(spans)
        self._drop(oldest)
        return True

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
            self._report_share()


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
