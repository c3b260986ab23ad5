"""Bodies of little but empty objects are refused before objects are made; texts and ids of spans are bounded."""

from __future__ import annotations

import json
import time

import pytest

from diagnostics.errors import MalformedBody
from diagnostics.service.otlp_intake import LONGEST_TEXT, without_secrets
from diagnostics.wire.spans import Span, read_json
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


def span(*more: bytes) -> bytes:
    """Return a span of protobuf with these fields beside the necessary ones."""
    times = b"\x39" + bytes([1, *[0] * 7]) + b"\x41" + bytes([2, *[0] * 7])
    return field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + times + b"".join(more))


def read(*spans: bytes) -> tuple[int, list[Span]]:
    taken: list[Span] = []
    return read_protobuf(field(1, field(2, b"".join(spans))), taken.append), taken


@pytest.mark.parametrize("number", [9, 11, 13], ids=["attributes", "events", "links"])
def test_a_crowd_inside_of_one_span_spoils_it_alone_and_is_not_counted_to_its_end(number: int):
    begun = time.process_time()
    corrupt, taken = read(span(), span(field(number, b"") * 1_000_000))
    assert (corrupt, len(taken)) == (1, 1)
    assert time.process_time() - begun < 0.5


def test_a_corrupt_span_spoils_no_other():
    corrupt, taken = read(span(), field(2, b"\x0a\x7f"), span())
    assert (corrupt, len(taken)) == (1, 2)


def test_of_a_span_with_a_long_prompt_the_model_and_the_events_are_read():
    prompt = field(9, field(1, b"gen_ai.prompt") + field(2, field(1, b"x" * 200_000)))
    model = field(9, field(1, b"triton.model_name") + field(2, field(1, b"chat")))
    event = field(11, field(2, b"COMPUTE_START") + b"\x09" + bytes([1, *[0] * 7]))
    corrupt, (one,) = read(span(model, prompt, event))
    assert (corrupt, one.model, dict(one.marks)) == (0, "chat", {"COMPUTE_START": 1})


def test_a_sender_with_a_crowd_of_attributes_is_refused():
    with pytest.raises(MalformedBody):
        read_protobuf(field(1, field(1, field(1, b"") * 1_000_000)), lambda _: None)


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
