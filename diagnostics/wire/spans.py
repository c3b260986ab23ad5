"""Spans of traces, whatever carried them: OTLP in JSON or protobuf, gzip around either, Triton's own trace files."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt

MAX_UNPACKED_BYTES = 512 * 2**20
"""A million spans of Triton's exporter; a compressed body that grows beyond is an attack on memory."""
_GZIP = b"\x1f\x8b"
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"

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


@dataclass(slots=True)
class SpanBatch:
    """What one body held: its spans, and how many were there that could not be read."""

    spans: list[Span] = field(default_factory=list)
    corrupt: int = 0


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


def decode_spans(body: bytes) -> SpanBatch:
    """Return the spans of one export body or trace file, and how many could not be read.

    Raises:
        MalformedBody: as `read_spans`.

    """
    batch = SpanBatch()
    batch.corrupt = read_spans(body, batch.spans.append)
    return batch


def read_spans(body: bytes, take: Take, until: float | None = None) -> int:
    """Give each span of one export body or trace file to `take`; return how many could not be read.

    `until` is when the body was read, Unix seconds: Triton's own files count from the host's boot, so their newest
    instant is taken to be then.

    Told apart by content: gzip, JSON (`{` an OTLP request in either spelling of its keys, `[` Triton's own file),
    protobuf.

    Raises:
        MalformedBody: it is none of these, is cut off, or unpacks to more than 512 MiB.

    """
    from diagnostics.wire.spans_json import read_json
    from diagnostics.wire.spans_protobuf import read_protobuf
    from diagnostics.wire.spans_triton import read_triton

    plain = _unpacked(body) if body.startswith(_GZIP) else body
    first = plain[:64].removeprefix(_BOM).lstrip(_SPACE)[:1]
    if first == b"{":
        return read_json(plain.removeprefix(_BOM), take)
    if first == b"[":
        return read_triton(plain.removeprefix(_BOM), take, until)
    if first == b"<":
        raise MalformedBody(f"the trace export is a page of HTML or XML: {excerpt(plain)}")
    return read_protobuf(plain, take)


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        plain = unpacker.decompress(body, MAX_UNPACKED_BYTES)
    except zlib.error as error:
        raise MalformedBody(f"the trace export is damaged gzip: {error}") from error
    if unpacker.unconsumed_tail:
        raise MalformedBody(f"the trace export unpacks to more than {MAX_UNPACKED_BYTES >> 20} MiB")
    if not unpacker.eof:
        raise MalformedBody("the trace export is gzip that is cut off")
    return plain


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
