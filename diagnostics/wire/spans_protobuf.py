"""OTLP export requests in protobuf, which other services and Collectors send.

Spans are cut out of the body first and parsed one by one, as in JSON: one that is corrupt spoils no other, and what
all of them would take as objects is never held at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from google.protobuf.message import DecodeError
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

from diagnostics.errors import MalformedBody
from diagnostics.wire.protobuf import delimited_fields
from diagnostics.wire.spans import (
    INSTANCE_NAMES,
    LONGEST_ID,
    MODEL_NAME,
    MODEL_VERSION,
    MOST_PARTS,
    PARENT_NUMBER,
    RANKS,
    SERVICE_NAME,
    Sieve,
    Span,
    Take,
    first_marks,
    rank,
    valid_times,
)

# Numbers of fields: of a request, of resource spans, of scope spans.
_RESOURCE_SPANS = 1
_RESOURCE, _SCOPE_SPANS = 1, 2
_SPANS = 2
_LARGE = 64 * 2**10
"""Bytes of a span or a resource beyond which only its small fields are parsed: prompts and answers are large."""
_SMALL = 2**10
"""Bytes of a field that is small: a name of a model has 255, an event of Triton some 40."""
_MOST_FIELDS = 10_000
"""Of a large span or resource: SDKs limit attributes, events and links to 128 each (OTEL_SPAN_EVENT_COUNT_LIMIT)."""
_TRACE_ID = b"\x0a\x10"
"""How a span begins whose trace's id comes first, 16 bytes long: as all exporters write it."""
_ABOUT_SENDERS = frozenset({SERVICE_NAME, *INSTANCE_NAMES})
_ABOUT_MODELS = frozenset({MODEL_NAME, MODEL_VERSION, PARENT_NUMBER})


def read_protobuf(body: bytes, take: Take, sieve: Sieve | None = None) -> int:
    """Give the spans of an export request; ids become lower-case hex, as JSON has them.

    Returns how many spans could not be read; those that `sieve` leaves out are not looked at.

    Raises:
        MalformedBody: it is no export request, is cut off, or holds more parts than `MOST_PARTS`.

    """
    try:
        groups = list(_groups(body))
        senders = [_sender(resource) for resource, _ in groups]
    except DecodeError as error:
        raise MalformedBody("the trace export is neither JSON nor protobuf, or is cut off") from error
    corrupt = 0
    for (service, instance), (_, spans) in zip(senders, groups, strict=True):
        limit = sieve.limit(instance) if sieve else RANKS
        for start, end in spans:
            data = body[start:end]
            if sieve and limit < RANKS and data.startswith(_TRACE_ID) and rank(data[2:18].hex()) >= limit:
                sieve.leave_out()
                continue
            span = _parsed(data, service, instance)
            if span is None:
                corrupt += 1
            elif sieve and limit < RANKS and rank(span.trace) >= limit:
                sieve.leave_out()
            else:
                take(span)
    return corrupt


def _groups(body: bytes) -> Iterator[tuple[bytes, list[tuple[int, int]]]]:
    """Yield each resource, and where its spans are.

    Fields are counted before objects are made of them: an empty one takes two bytes here and two hundred there.
    """
    parts = count(1)

    def fields(start: int, end: int) -> Iterator[tuple[int, int, int]]:
        for number, _, inner, after in delimited_fields(body, start, end):
            if next(parts) > MOST_PARTS:
                raise MalformedBody(f"the trace export holds more than {MOST_PARTS:,} resources, scopes and spans")
            yield number, inner, after

    for group, start, end in fields(0, len(body)):
        resource, spans = b"", []
        for number, inner, after in fields(start, end) if group == _RESOURCE_SPANS else ():
            if number == _RESOURCE:
                resource += body[inner:after]
            elif number == _SCOPE_SPANS:
                spans += [(at, to) for part, at, to in fields(inner, after) if part == _SPANS]
        yield resource, spans


def _small_fields(data: bytes) -> bytes:
    """Return a span or resource as it is; of a large one what is small in it.

    Raises:
        DecodeError: it has too many fields, or is cut off.

    """
    if len(data) <= _LARGE:
        return data
    kept = bytearray()
    for fields, (_, begin, start, end) in enumerate(delimited_fields(data, 0, len(data))):
        if fields >= _MOST_FIELDS:
            raise DecodeError("too many fields")
        if end - start <= _SMALL:
            kept += data[begin:end]
    return bytes(kept)


def _sender(resource: bytes) -> tuple[str, str]:
    """Return what a resource calls its service, and its process or machine."""
    about = _attributes(Resource.FromString(_small_fields(resource)).attributes, _ABOUT_SENDERS)
    return about.get(SERVICE_NAME, ""), next((about[name] for name in INSTANCE_NAMES if about.get(name)), "")


def _parsed(data: bytes, service: str, instance: str) -> Span | None:
    try:
        return _span(WireSpan.FromString(_small_fields(data)), service, instance)
    except DecodeError:
        return None


def _attributes(attributes: Iterable[KeyValue], keys: frozenset[str]) -> dict[str, str]:
    return {item.key: item.value.string_value or str(item.value.int_value) for item in attributes if item.key in keys}


def _span(wire: WireSpan, service: str, instance: str) -> Span | None:
    start, end = wire.start_time_unix_nano, wire.end_time_unix_nano
    if not (wire.trace_id and wire.span_id and valid_times(start, end)):
        return None
    if 2 * max(len(wire.trace_id), len(wire.span_id), len(wire.parent_span_id)) > LONGEST_ID:
        return None
    about = _attributes(wire.attributes, _ABOUT_MODELS)
    number = about.get(PARENT_NUMBER)
    return Span(
        wire.trace_id.hex(),
        wire.span_id.hex(),
        wire.parent_span_id.hex(),
        wire.name,
        start,
        end,
        service,
        int(wire.kind),
        about.get(MODEL_NAME, ""),
        about.get(MODEL_VERSION, ""),
        None if number is None else number != "0",
        first_marks(((event.name, event.time_unix_nano) for event in wire.events), start),
        instance,
    )
