"""OTLP export requests in protobuf, which other services and Collectors send."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from diagnostics.errors import MalformedBody
from diagnostics.wire.spans import (
    INSTANCE_NAMES,
    MODEL_NAME,
    MODEL_VERSION,
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

_ABOUT_SENDERS = frozenset({SERVICE_NAME, *INSTANCE_NAMES})
_ABOUT_MODELS = frozenset({MODEL_NAME, MODEL_VERSION, PARENT_NUMBER})


def read_protobuf(body: bytes, take: Take, sieve: Sieve | None = None) -> int:
    """Give the spans of an export request; ids become lower-case hex, as JSON has them.

    Returns how many spans could not be read; those that `sieve` leaves out are not looked at.

    Raises:
        MalformedBody: it is no export request, or is cut off.

    """
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


def _attributes(attributes: Iterable[KeyValue], keys: frozenset[str]) -> dict[str, str]:
    return {item.key: item.value.string_value or str(item.value.int_value) for item in attributes if item.key in keys}


def _span(wire: WireSpan, service: str, instance: str) -> Span | None:
    start, end = wire.start_time_unix_nano, wire.end_time_unix_nano
    if not (wire.trace_id and wire.span_id and valid_times(start, end)):
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
