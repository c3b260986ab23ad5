"""OTLP export requests in protobuf, which other services and Collectors send."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from diagnostics.errors import MalformedBody
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

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan

# Numbers of the fields resource_spans, scope_spans and spans, each inside the one before.
_PATH = (1, 2, 2)
_WITH_LENGTH = 2
_FIXED = {1: 8, 5: 4}
"""Bytes of a field by how it is written; anything else ends the counting."""
_ABOUT_SENDERS = frozenset({SERVICE_NAME, *INSTANCE_NAMES})
_ABOUT_MODELS = frozenset({MODEL_NAME, MODEL_VERSION, PARENT_NUMBER})


def read_protobuf(body: bytes, take: Take, sieve: Sieve | None = None) -> int:
    """Give the spans of an export request; ids become lower-case hex, as JSON has them.

    Returns how many spans could not be read; those that `sieve` leaves out are not looked at.

    Raises:
        MalformedBody: it is no export request, is cut off, or holds more parts than `MOST_PARTS`.

    """
    _refuse_crowded(body)
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise MalformedBody("the trace export is neither JSON nor protobuf, or is cut off") from error
    corrupt = 0
    for group in request.resource_spans:
        about = _attributes(group.resource.attributes, _ABOUT_SENDERS)
        service = about.get(SERVICE_NAME, "")
        instance = next((about[name] for name in INSTANCE_NAMES if about.get(name)), "")
        limit = sieve.limit(instance) if sieve else RANKS
        for scope in group.scope_spans:
            for wire in scope.spans:
                if sieve and limit < RANKS and rank(wire.trace_id.hex()) >= limit:
                    sieve.leave_out()
                    continue
                span = _span(wire, service, instance)
                if span is None:
                    corrupt += 1
                else:
                    take(span)
    return corrupt


def _refuse_crowded(body: bytes) -> None:
    """Count parts before objects are made of them: an empty one takes two bytes here and two hundred there."""
    parts = 0
    places = [(0, len(body), 0)]
    while places:
        start, end, level = places.pop()
        for number, inner, after in _embedded(body, start, end):
            if number == _PATH[level]:
                parts += 1
                if parts > MOST_PARTS:
                    raise MalformedBody(f"the trace export holds more than {MOST_PARTS:,} resources, scopes and spans")
                if level + 1 < len(_PATH):
                    places.append((inner, after, level + 1))


def _embedded(body: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and end of the fields with a length, until one cannot be read: the parser refuses it."""
    while at < end:
        tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == _WITH_LENGTH:
            length, at = _varint(body, at, end)
            yield tag >> 3, at, min(at + length, end)
            at += length
        elif kind == 0:
            _, at = _varint(body, at, end)
        else:
            at += _FIXED.get(kind, end)


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 64:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, at


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
