"""One traced request: its visits to models, each with the instants of its phases, and the callers around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from diagnostics.wire.spans import (
    COMPUTE_END,
    COMPUTE_INPUT_END,
    COMPUTE_OUTPUT_START,
    COMPUTE_START,
    QUEUE_START,
    Span,
)

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
        marks = (self.queued, self.began, self.input_end, self.output_start, self.computed)
        known = [mark for mark in marks if mark is not None]
        return len(known) == len(marks) and all(a <= b for a, b in pairwise(known))

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
