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


class Visit(NamedTuple):
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
    below: tuple[Visit, ...]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    """One request to the server.

    Attributes:
        trace: the trace it belongs to; several requests of one trace were sent by one caller.
        service: the service that reported it.
        root: the visit to the model or ensemble that was called.
        front: (start, end) of the frontend's span around it, Unix nanoseconds: from the first byte read to the last
            sent; None where it was not traced.
        outer: the spans of callers around it, the nearest first.

    """

    trace: str
    service: str
    root: Visit
    front: tuple[int, int] | None = None
    outer: Sequence[Outer] = ()

    @property
    def end_seconds(self) -> float:
        """When the server was done with it, Unix seconds."""
        return self.root.end * NANOSECOND

    @property
    def front_seconds(self) -> float | None:
        """Time in the server's frontend outside the model: reading, decoding, encoding, sending."""
        if self.front is None:
            return None
        return max((self.front[1] - self.front[0]) * NANOSECOND - self.root.seconds, 0.0)

    @property
    def server_seconds(self) -> float:
        """Time in the server as its frontend saw it, else as its core did."""
        return (self.front[1] - self.front[0]) * NANOSECOND if self.front else self.root.seconds

    def visits(self) -> Iterator[Visit]:
        """Yield the root and everything below it, parents first."""
        waiting = [self.root]
        while waiting:
            visit = waiting.pop()
            yield visit
            waiting.extend(visit.below)


def visit_of(root: Span, children: Mapping[str, Sequence[Span]]) -> tuple[Visit, int]:
    """Return the visit of a model span with those below it, and how many model spans that are.

    Without recursion: a trace may be deeper than Python's stack. A span below itself is not entered twice.
    """
    order, seen = [root], {root.id}
    for span in order:
        for child in children.get(span.id, ()):
            if child.model and child.id not in seen:
                seen.add(child.id)
                order.append(child)
    made: dict[str, Visit] = {}
    for span in reversed(order):
        marks, below = dict(span.marks), []
        for child in children.get(span.id, ()):
            if child.id in made:
                below.append(made.pop(child.id))
            elif child.name == COMPUTE and not child.model:
                marks.update(child.marks)
        made[span.id] = _visit(span, marks, tuple(sorted(below, key=_by_start)))
    return made[root.id], len(order)


def _by_start(visit: Visit) -> tuple[int, int]:
    return visit.start, visit.end


def _visit(span: Span, marks: Mapping[str, int], below: tuple[Visit, ...]) -> Visit:
    return Visit(
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
_SENT = ("HTTP_SEND_END", "GRPC_SEND_END")


def front_of(root: Span, spans: Mapping[str, Span]) -> tuple[int, int] | None:
    """Return start and end of the frontend's span above a model span, of the same service; None without one.

    gRPC's span may begin while the server still waits for a request to read, so its read's end counts.
    """
    nearest = next(_above(root, spans), None)
    source = nearest if nearest is not None and nearest.service == root.service and not nearest.model else root
    start = min((source.marks[name] for name in _ARRIVED if name in source.marks), default=source.start)
    end = max((source.marks[name] for name in _SENT if name in source.marks), default=source.end)
    if source is root and start == source.start and end == source.end:
        return None
    return min(start, root.start), max(end, root.end)


def outer_spans(root: Span, spans: Mapping[str, Span]) -> tuple[Outer, ...]:
    """Return the spans of other services above a model span, the nearest first."""
    return tuple(
        Outer(span.service, span.name, span.kind, span.start, span.end)
        for span in _above(root, spans)
        if span.service != root.service
    )


def _seconds(start: int | None, end: int | None) -> float | None:
    return None if start is None or end is None else (end - start) * NANOSECOND
