"""Spans of traces, whatever carried them, and the words that they are told in."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

# Names of the events that Triton puts on its spans (server, `tracer.cc`).
QUEUE_START = "QUEUE_START"
COMPUTE_START = "COMPUTE_START"
COMPUTE_INPUT_END = "COMPUTE_INPUT_END"
COMPUTE_OUTPUT_START = "COMPUTE_OUTPUT_START"
COMPUTE_END = "COMPUTE_END"
MARKS: Mapping[str, str] = {
    name: name
    for name in (
        "REQUEST_START",
        QUEUE_START,
        "REQUEST_END",
        COMPUTE_START,
        COMPUTE_INPUT_END,
        COMPUTE_OUTPUT_START,
        COMPUTE_END,
        "HTTP_RECV_START",
        "HTTP_RECV_END",
        "HTTP_SEND_START",
        "HTTP_SEND_END",
        "GRPC_WAITREAD_START",
        "GRPC_WAITREAD_END",
        "GRPC_SEND_START",
        "GRPC_SEND_END",
        "INFER_RESPONSE_COMPLETE",
    )
}
"""The events that are kept; the values are the one copy of each name."""
# Attributes of a model span: its name, its version, and the model span above it by Triton's own numbering (0: none).
MODEL_NAME = "triton.model_name"
MODEL_VERSION = "triton.model_version"
PARENT_NUMBER = "triton.trace_parent_id"
SERVICE_NAME = "service.name"
# Attributes of a resource that say which process, or which machine, sent a span; the first that is there counts.
INSTANCE_NAMES = ("service.instance.id", "host.name")
CLIENT_KIND = 3
"""SpanKind CLIENT of the OpenTelemetry protocol: a call as its caller saw it."""


class Span(NamedTuple):
    """One span.

    `start`, `end` and the values of `marks` are Unix nanoseconds. `model` is empty on spans that are no model's
    (`InferRequest`, `compute`, a caller's). `marks` holds the first event of each name in `MARKS`. `nested` says that
    Triton counts a model span above this one, None where nothing is said. `instance` is what the sender calls its
    process or machine, empty where it does not.
    """

    trace: str
    id: str
    parent: str
    name: str
    start: int
    end: int
    service: str
    kind: int
    model: str
    version: str
    nested: bool | None
    marks: Mapping[str, int]
    instance: str = ""


Take = Callable[[Span], None]
RANKS = 1 << 32
"""How many ranks there are: all traces are below."""


def rank(trace: str) -> int:
    """Return where a trace stands when only some can be kept: those below a limit, the same ones wherever it is."""
    return zlib.crc32(trace.encode())


class Sieve(Protocol):
    """Leaves whole traces out before their spans are read, which costs most."""

    def limit(self, instance: str) -> int:
        """Return the rank from which on traces of this sender are left out; `RANKS` for none."""
        ...

    def leave_out(self) -> None:
        """Count a span that was left out."""
        ...


LONGEST_ID = 64
"""Characters: twice those of a trace's id in hex. A longer one is no id, and would be kept with its span."""
MOST_PARTS = 100_000
"""Resources, scopes and spans of one protobuf body: a span with ids and times takes 46 bytes of at most 4 MiB."""
LATEST_NS = (1 << 63) - 1


def valid_times(start: int, end: int) -> bool:
    """Return whether a span's times can be: set, in order, and within what 64 bits of nanoseconds hold."""
    return 0 < start <= end <= LATEST_NS


# Steady-clock events and a span's own start are taken apart by as much as a thread may be held up.
_SLACK_NS = 10_000_000_000


def first_marks(events: Iterable[tuple[str, int | str]], start: int) -> dict[str, int]:
    """Return the first time of each event in `MARKS`; one long before the span's `start` is left out.

    Triton stamps some events of streamed HTTP responses with a clock that was never read: times near the host's boot.

    Raises:
        ValueError: a time is no integer.

    """
    marks: dict[str, int] = {}
    earliest = start - _SLACK_NS
    for name, wire in events:
        known = MARKS.get(name)
        if known is not None:
            at = int(wire)
            if earliest <= at <= LATEST_NS and (known not in marks or at < marks[known]):
                marks[known] = at
    return marks
