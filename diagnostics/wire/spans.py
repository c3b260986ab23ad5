"""Spans of traces, whatever carried them, and the words for them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, NamedTuple, Protocol

import msgspec

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import excerpt, in_utf8

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


BANDS = 16
"""Parts of the ranks below a limit: traces of honest ids fill them alike, whoever makes ids up fills some of them."""


def band(trace: str, limit: int) -> int:
    """Return the part of the ranks below `limit` in which a trace stands."""
    return min(rank(trace) * BANDS // limit, BANDS - 1)


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


# 64-bit integers arrive as decimal strings, and as numbers from exporters that do not follow the mapping.
_Integer = int | str


class _Wire(msgspec.Struct, rename="camel", gc=False):
    """A JSON object of which only some keys matter."""


class _Value(_Wire):
    string_value: str | None = None
    int_value: _Integer | None = None


class _Attribute(_Wire):
    key: str = ""
    value: _Value | None = None


class _Event(_Wire):
    name: str = ""
    time_unix_nano: _Integer = 0


_NAME_AND_TIME = attrgetter("name", "time_unix_nano")


class _Span(_Wire):
    trace_id: str
    span_id: str
    start_time_unix_nano: _Integer
    end_time_unix_nano: _Integer
    name: str = ""
    kind: _Integer = 0
    parent_span_id: str | None = None
    attributes: list[_Attribute] | None = None
    events: list[_Event] | None = None


class _Identity(_Wire):
    trace_id: str


class _Scope(_Wire):
    spans: list[msgspec.Raw] | None = None


class _Resource(_Wire):
    attributes: list[_Attribute] | None = None


class _ResourceSpans(_Wire):
    resource: _Resource | None = None
    scope_spans: list[_Scope] | None = None
    instrumentation_library_spans: list[_Scope] | None = None


class _Request(_Wire):
    resource_spans: list[_ResourceSpans] | None = None


class Recorded(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a service knew of spans beside themselves when it recorded them.

    Attributes:
        vouched: whether it was known who sent them.
        share: of the traces that came, those that were kept: a power of one half.
        corrupt: spans that came with them and could not be read.

    """

    vouched: bool = True
    share: Annotated[float, msgspec.Meta(ge=2**-32, le=1)] = 1.0
    corrupt: Annotated[int, msgspec.Meta(ge=0)] = 0


class _Record(msgspec.Struct):
    recorded: Recorded


_REQUEST = msgspec.json.Decoder(_Request)
_SPAN = msgspec.json.Decoder(_Span)
_IDENTITY = msgspec.json.Decoder(_Identity)
_RECORD = msgspec.json.Decoder(_Record)
_RECORDED = b'{"recorded":'
_SNAKE_KEYS = (
    "resource_spans",
    "scope_spans",
    "instrumentation_library_spans",
    "trace_id",
    "span_id",
    "parent_span_id",
    "start_time_unix_nano",
    "end_time_unix_nano",
    "time_unix_nano",
    "string_value",
    "int_value",
)
# Inside a JSON string a quote has a backslash before it, so this meets keys and whole values only.
_SNAKE = re.compile(rb'"(' + "|".join(_SNAKE_KEYS).encode() + rb')"(?=\s*:)')
# Of objects are made that take fifty times their two bytes: counted before. An attribute has 4 parts in 37 bytes.
_FEW_PARTS, _BYTES_OF_A_PART = 1000, 5
_NO_PARENT = ("0", "")
_KINDS = {"SPAN_KIND_INTERNAL": 1, "SPAN_KIND_SERVER": 2, "SPAN_KIND_CLIENT": 3}


def read_json(body: bytes, take: Take, sieve: Sieve | None = None) -> int:
    """Give the spans of an export request, or of several on lines of their own (the Collector's file exporter).

    Returns how many spans could not be read; those that `sieve` leaves out are not looked at.

    Raises:
        MalformedBody: it is not JSON, is cut off, is no export request, or is little but brackets and commas.

    """
    if body.count(b"{") + body.count(b",") > _FEW_PARTS + len(body) // _BYTES_OF_A_PART:
        raise MalformedBody("the trace export holds more empty objects than spans")
    if b'"resource_spans"' in body:
        body = _SNAKE.sub(lambda key: b'"' + _camel(key[1]) + b'"', body)
    return sum(_read_group(group, take, sieve) for request in _requests(body) for group in request.resource_spans or ())


def _camel(key: bytes) -> bytes:
    first, *rest = key.split(b"_")
    return first + b"".join(word.capitalize() for word in rest)


def _requests(body: bytes) -> list[_Request]:
    try:
        return [_REQUEST.decode(body)]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        try:
            lines = _REQUEST.decode_lines(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            lines = []
        if lines:
            return lines
        if (readable := in_utf8(body)) is not body:
            return _requests(readable)
        raise MalformedBody(f"the trace export cannot be read: {error}; it starts with {excerpt(body)}") from error


def _read_group(group: _ResourceSpans, take: Take, sieve: Sieve | None) -> int:
    corrupt = 0
    about = group.resource.attributes if group.resource else None
    service = _attribute(about, SERVICE_NAME)
    instance = next(filter(None, (_attribute(about, name) for name in INSTANCE_NAMES)), "")
    limit = sieve.limit(instance) if sieve else RANKS
    for scope in (*(group.scope_spans or ()), *(group.instrumentation_library_spans or ())):
        for raw in scope.spans or ():
            try:
                if sieve and limit < RANKS and rank(_IDENTITY.decode(raw).trace_id) >= limit:
                    sieve.leave_out()
                    continue
                span = _span(_SPAN.decode(raw), service, instance)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                corrupt += 1
            else:
                take(span)
    return corrupt


def _attribute(attributes: Iterable[_Attribute] | None, key: str) -> str:
    return next((_text(item) for item in attributes or () if item.key == key), "")


def _text(attribute: _Attribute) -> str:
    value = attribute.value
    if value is None:
        return ""
    return value.string_value if value.string_value is not None else str(value.int_value or "")


def _span(wire: _Span, service: str, instance: str) -> Span:
    """Return the span; written without calls per attribute and event, as this runs for every one of them."""
    start, end = int(wire.start_time_unix_nano), int(wire.end_time_unix_nano)
    if not (wire.trace_id and wire.span_id and valid_times(start, end)):
        raise ValueError("a span without identity or with impossible times")
    ids = f"{wire.trace_id}{wire.span_id}{wire.parent_span_id}"
    if max(len(wire.trace_id), len(wire.span_id), len(wire.parent_span_id or "")) > LONGEST_ID or not ids.isascii():
        raise ValueError("an id that is none")
    model, version, nested = "", "", None
    for item in wire.attributes or ():
        if item.key == MODEL_NAME:
            model = _text(item)
        elif item.key == MODEL_VERSION:
            version = _text(item)
        elif item.key == PARENT_NUMBER:
            nested = _text(item) not in _NO_PARENT
    return Span(
        wire.trace_id,
        wire.span_id,
        wire.parent_span_id or "",
        wire.name,
        start,
        end,
        service,
        wire.kind if isinstance(wire.kind, int) else _KINDS.get(wire.kind, 0),
        model,
        version,
        nested,
        first_marks(map(_NAME_AND_TIME, wire.events), start) if wire.events else {},
        instance,
    )


def recorded(body: bytes) -> Recorded | None:
    """Return what was recorded with the spans of a body; None of one that no service wrote."""
    if not body.startswith(_RECORDED):
        return None
    try:
        return _RECORD.decode(body).recorded
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def write_json(spans: Sequence[Span], about: Recorded | None = None) -> bytes:
    """Return an export request of these spans, as far as `Span` holds them: read again, they are the same."""
    groups: dict[tuple[str, str], list[dict[str, object]]] = {}
    for span in spans:
        groups.setdefault((span.service, span.instance), []).append(_written(span))
    sent = [
        {
            "resource": {"attributes": _strings({SERVICE_NAME: service, INSTANCE_NAMES[0]: instance})},
            "scopeSpans": [{"spans": group}],
        }
        for (service, instance), group in groups.items()
    ]
    head = {"recorded": about} if about else {}
    return msgspec.json.encode({**head, "resourceSpans": sent})


def _written(span: Span) -> dict[str, object]:
    nested = "" if span.nested is None else "1" if span.nested else "0"
    return {
        "traceId": span.trace,
        "spanId": span.id,
        "parentSpanId": span.parent,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _strings({MODEL_NAME: span.model, MODEL_VERSION: span.version, PARENT_NUMBER: nested}),
        "events": [{"name": name, "timeUnixNano": str(at)} for name, at in span.marks.items()],
    }


def _strings(named: Mapping[str, str]) -> list[dict[str, object]]:
    return [{"key": key, "value": {"stringValue": text}} for key, text in named.items() if text]
