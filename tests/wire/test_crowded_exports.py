"""Bodies of little but empty objects are refused before objects are made; texts and ids of spans are bounded."""

from __future__ import annotations

import json

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.service.otlp_intake import LONGEST_TEXT, without_secrets
from diagnostics.wire.spans import Span
from diagnostics.wire.spans_json import read_json
from diagnostics.wire.spans_protobuf import read_protobuf

MANY = 200_000


def field(number: int, content: bytes) -> bytes:
    length, size = len(content), b""
    while length > 127:
        size, length = size + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


@pytest.mark.parametrize(
    "body", [b"\x0a\x00" * MANY, field(1, b"\x12\x00" * MANY), field(1, field(2, b"\x12\x00" * MANY))]
)
def test_a_crowd_of_empty_messages_is_refused(body: bytes):
    with pytest.raises(MalformedBody, match="holds more than"):
        read_protobuf(body, lambda _: None)


@pytest.mark.parametrize("inside", ["%s", '{"scopeSpans":[%s]}', '{"scopeSpans":[{"spans":[%s]}]}'])
def test_a_crowd_of_empty_objects_is_refused(inside: str):
    body = '{"resourceSpans":[' + inside % ",".join(["{}"] * MANY) + "]}"
    with pytest.raises(MalformedBody, match="empty objects"):
        read_json(body.encode(), lambda _: None)


def test_spans_with_attributes_are_read_however_many():
    attributes = [{"key": f"k{number}", "value": {"intValue": "1"}} for number in range(20)]
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    spans = [{**span, "attributes": attributes}] * 2000
    taken: list[Span] = []
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}, separators=(",", ":"))
    assert read_json(body.encode(), taken.append) == 0
    assert len(taken) == 2000


def test_an_id_that_is_no_id_spoils_its_span_alone():
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    spans = [span, {**span, "traceId": "a" * 100_000}]
    taken: list[Span] = []
    corrupt = read_json(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode(), taken.append)
    assert (corrupt, len(taken)) == (1, 1)


def test_a_long_text_is_cut_and_holds_no_secret():
    span = Span("a", "b", "", "x" * 100_000, 1, 2, "password=canary " + "y" * 1000, 0, "m", "1", None, {})
    kept = without_secrets(span)
    assert (len(kept.name), kept.model) == (LONGEST_TEXT, "m")
    assert "canary" not in kept.service
    assert len(kept.service) <= LONGEST_TEXT
