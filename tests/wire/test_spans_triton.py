from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnostics.wire.spans import Span
from diagnostics.wire.trace_export import decode_spans, read_spans

START = 1_795_818_299_000_000_000
LEAF = {
    "REQUEST_START": 0,
    "QUEUE_START": 1_000,
    "COMPUTE_START": 5_000,
    "COMPUTE_INPUT_END": 6_000,
    "COMPUTE_OUTPUT_START": 9_000,
    "COMPUTE_END": 9_500,
    "REQUEST_END": 10_000,
}
OBJECTS = [
    {"id": 2, "timestamps": [{"name": name, "ns": START + at} for name, at in LEAF.items()]},
    {"id": 1, "model_name": "chat", "model_version": 1, "request_id": "r", "parent_id": 0},
    {"id": 1, "timestamps": [{"name": "HTTP_RECV_START", "ns": START - 500}, {"name": "REQUEST_START", "ns": START}]},
    {"id": 2, "model_name": "safety", "model_version": 3, "parent_id": 1},
    {"id": 2, "activity": "TENSOR_QUEUE_INPUT", "tensor": {"name": "x", "data": "0.1,0.2", "shape": "1,2"}},
    {
        "id": 1,
        "timestamps": [{"name": "REQUEST_END", "ns": START + 11_000}, {"name": "HTTP_SEND_END", "ns": START + 12_000}],
    },
]
FILE = json.dumps(OBJECTS).encode()


def test_a_trace_file_becomes_a_span_per_model_with_its_parent() -> None:
    batch = decode_spans(FILE)

    chat, safety = sorted(batch.spans, key=lambda found: found.id)
    assert (chat.model, chat.parent, chat.nested) == ("chat", "", False)
    assert (safety.model, safety.version, safety.parent, safety.trace) == ("safety", "3", "1", "1")
    assert safety.marks["COMPUTE_START"] == START + 5_000
    assert (chat.start, chat.end) == (START, START + 11_000)
    assert batch.corrupt == 0


def test_instants_since_the_hosts_boot_end_when_the_file_was_read() -> None:
    booted = re.sub(rb"\d{19}", lambda found: b"%d" % (int(found[0]) - START + 10**12), FILE)
    spans = list[Span]()

    assert read_spans(booted, spans.append, until=1_795_818_400.0) == 0
    assert max(found.end for found in spans) == pytest.approx(1_795_818_400 * 10**9, abs=2000)
    assert [found.end - found.start for found in spans] == [
        found.end - found.start for found in decode_spans(FILE).spans
    ]


def test_a_file_that_its_server_left_open_is_read() -> None:
    assert decode_spans(FILE[:-1]).spans == decode_spans(FILE).spans
    assert decode_spans(FILE[:-1] + b",\n").spans == decode_spans(FILE).spans


def test_what_follows_a_break_is_read_and_the_break_is_counted() -> None:
    broken = FILE.replace(b'{"id": 2, "activity"', b'{"id": 2 "activity"')

    batch = decode_spans(broken)
    assert batch.corrupt == 1
    assert batch.spans == decode_spans(FILE).spans


def test_parents_that_go_in_circles_end() -> None:
    circle = [{"id": number, "model_name": "m", "model_version": 1, "parent_id": 3 - number} for number in (1, 2)] + [
        {"id": number, "timestamps": [{"name": "REQUEST_START", "ns": START}]} for number in (1, 2)
    ]

    assert len(decode_spans(json.dumps(circle).encode()).spans) == 2


@given(cut=st.integers(1, len(FILE) - 1), other=st.binary(max_size=3))
def test_no_damage_breaks_reading(cut: int, other: bytes) -> None:
    batch = decode_spans(b"[" + FILE[1:cut] + other + FILE[cut:])

    assert len(batch.spans) + batch.corrupt <= 20
