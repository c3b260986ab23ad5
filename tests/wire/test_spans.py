from __future__ import annotations

import base64
import gzip
import json
import re
import tracemalloc

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from diagnostics.errors import MalformedBody
from diagnostics.wire.trace_export import decode_spans
from tests.builders_traces import Leg, ensemble_trace, export, nanoseconds, span, trace_id

STAGES = (Leg(model="tokenizer", queue=0.001, compute=0.002), Leg(model="safety", queue=0.1, input=0.001, compute=0.02))
TRACE = ensemble_trace(trace_id(1), 1.0, STAGES)


def hexadecimal(body: bytes) -> bytes:
    """Return the body with ids of whole bytes in hex, as exporters write them."""
    return re.sub(
        rb'"(traceId|spanId|parentSpanId)": "([^"]*)"',
        lambda found: b'"' + found[1] + b'": "' + found[2].hex().encode() + b'"',
        body,
    )


def as_protobuf(body: bytes) -> bytes:
    def in_base64(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: in_base64(item, name) for name, item in value.items()}
        if isinstance(value, list):
            return [in_base64(item) for item in value]
        if key in ("traceId", "spanId", "parentSpanId"):
            return base64.b64encode(bytes.fromhex(str(value))).decode()
        return value

    return ParseDict(in_base64(json.loads(body)), ExportTraceServiceRequest()).SerializeToString()


def as_snake(body: bytes) -> bytes:
    def snake(found: re.Match[bytes]) -> bytes:
        return re.sub(rb"[A-Z]", lambda upper: b"_" + upper[0].lower(), found[0])

    return re.sub(rb'"[a-z]+[A-Za-z]*":', snake, body)


def test_a_model_span_carries_its_name_version_and_instants() -> None:
    spans = {found.name: found for found in decode_spans(export(TRACE)).spans}

    safety = spans["safety"]
    assert (safety.model, safety.version, safety.nested) == ("safety", "1", True)
    assert safety.service == "triton-inference-server"
    assert safety.marks["QUEUE_START"] == nanoseconds(1.003)
    assert (safety.start, safety.end) == (nanoseconds(1.003), nanoseconds(1.124))
    assert spans["chat"].nested is False
    assert spans["InferRequest"].nested is None


def test_the_keys_of_servers_before_23_09_are_read_too() -> None:
    old = as_snake(export(TRACE))
    assert b"start_time_unix_nano" in old

    assert decode_spans(old).spans == decode_spans(export(TRACE)).spans


def test_protobuf_says_the_same_as_json() -> None:
    body = hexadecimal(export(TRACE))

    assert decode_spans(as_protobuf(body)).spans == decode_spans(body).spans


def test_gzip_around_a_body_is_taken_off() -> None:
    assert decode_spans(gzip.compress(export(TRACE))).spans == decode_spans(export(TRACE)).spans


def test_requests_on_lines_of_their_own_are_one_body() -> None:
    body = export(TRACE[:3]) + b"\n" + export(TRACE[3:]) + b"\n"

    assert decode_spans(body).spans == decode_spans(export(TRACE)).spans


@pytest.mark.parametrize(
    "broken",
    [
        {"traceId": None},
        {"startTimeUnixNano": "soon"},
        {"startTimeUnixNano": "5", "endTimeUnixNano": "4"},
        {"endTimeUnixNano": str(1 << 70)},
        {"spanId": ""},
        {"events": "none"},
        {"events": [{"name": "QUEUE_START", "timeUnixNano": "now"}]},
        {"attributes": [{"key": 3, "value": {}}]},
    ],
)
def test_a_corrupt_span_is_counted_and_spoils_no_other(broken: dict[str, object]) -> None:
    batch = decode_spans(export([*TRACE, {**TRACE[0], **broken}]))

    assert len(batch.spans) == len(TRACE)
    assert batch.corrupt == 1


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"<html>", export(TRACE)[:-40], gzip.compress(export(TRACE))[:-20], b"\x1f\x8b\x00", b"\xff\x00"],
)
def test_a_body_that_is_no_export_is_refused_with_a_message(body: bytes) -> None:
    if body == b"":
        assert decode_spans(body).spans == []  # an empty protobuf request
        return
    with pytest.raises(MalformedBody):
        decode_spans(body)


def test_events_stamped_near_the_hosts_boot_are_left_out() -> None:
    streamed = span(trace_id(1), "a", "InferRequest", 1.0, 2.0, marks={"HTTP_SEND_START": -900.0, "HTTP_SEND_END": 2.0})

    assert set(decode_spans(export([streamed])).spans[0].marks) == {"HTTP_SEND_END"}


def test_the_first_of_several_events_of_a_name_counts() -> None:
    answered = span(trace_id(1), "a", "InferRequest", 1.0, 2.0)
    answered["events"] = [
        {"name": "INFER_RESPONSE_COMPLETE", "timeUnixNano": str(nanoseconds(at))} for at in (1.6, 1.4, 1.9)
    ]

    assert decode_spans(export([answered])).spans[0].marks == {"INFER_RESPONSE_COMPLETE": nanoseconds(1.4)}


def test_a_giant_attribute_leaves_nothing_behind() -> None:
    giant = {"key": "prompt", "value": {"stringValue": "x" * 20_000_000}}
    body = export([{**TRACE[1], "attributes": [giant, *TRACE[1]["attributes"]]}])

    tracemalloc.start()
    batch = decode_spans(body)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.spans[0].model == "tokenizer"
    assert kept < 100_000


def test_a_gzip_bomb_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnostics.wire.trace_export.MAX_UNPACKED_BYTES", 1_000_000)

    with pytest.raises(MalformedBody, match="more than"):
        decode_spans(gzip.compress(b" " * 5_000_000 + b"{}"))


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


@given(changed=st.dictionaries(st.sampled_from([*TRACE[1], "parentSpanId"]), _VALUES, max_size=4))
def test_no_value_of_any_key_breaks_decoding(changed: dict[str, object]) -> None:
    batch = decode_spans(export([{**TRACE[1], **changed}, TRACE[0]]))

    assert len(batch.spans) + batch.corrupt == 2
    assert TRACE[0]["spanId"] in {found.id for found in batch.spans}


@given(cut=st.integers(0, len(export(TRACE)) - 1), other=st.binary(max_size=3))
def test_no_damage_to_a_body_breaks_decoding(cut: int, other: bytes) -> None:
    body = export(TRACE)
    for damaged in (body[:cut], body[:cut] + other + body[cut + 1 :]):
        try:
            batch = decode_spans(damaged)
        except MalformedBody:
            continue
        assert len(batch.spans) + batch.corrupt <= len(TRACE) + 1
