"""How fast exported spans become requests, against bare JSON decoding and a walk in the same run, and in spans/s."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable

import orjson

from diagnostics.window.traces import SpanStore
from tests.bench.conftest import Goals

REQUESTS_PER_BODY = 40
BODIES = 60
STAGES = ("tokenizer", "embedder", "safety", "llm", "detokenizer")
ROUNDS = 5
SHARE_OF_BARE = 0.25
SPANS_PER_SECOND = 30_000


def _event(name: str, at: int) -> dict[str, object]:
    return {"name": name, "timeUnixNano": str(at)}


def _span(trace: str, span: str, parent: str, name: str, marks: list[tuple[str, int]]) -> dict[str, object]:
    found = {
        "endTimeUnixNano": str(marks[-1][1]),
        "events": [_event(*mark) for mark in marks],
        "kind": 2,
        "name": name,
        "spanId": span,
        "startTimeUnixNano": str(marks[0][1]),
        "traceId": trace,
    }
    return {**found, "parentSpanId": parent} if parent else found


def _model(trace: str, span: str, parent: str, name: str, start: int, end: int, nested: int) -> dict[str, object]:
    marks = [("REQUEST_START", start), ("QUEUE_START", start + 10_000), ("REQUEST_END", end)]
    attributes = [
        {"key": "triton.model_name", "value": {"stringValue": name}},
        {"key": "triton.model_version", "value": {"intValue": "1"}},
        {"key": "triton.trace_id", "value": {"intValue": "60"}},
        {"key": "triton.trace_parent_id", "value": {"intValue": str(nested)}},
    ]
    return {**_span(trace, span, parent, name, marks), "attributes": attributes}


def _request(draw: random.Random, start: int) -> list[dict[str, object]]:
    trace, front, root = (f"{draw.getrandbits(bits):0{bits // 4}x}" for bits in (128, 64, 64))
    spans, at = [], start
    for name in STAGES:
        stage, compute = (f"{draw.getrandbits(64):016x}" for _ in range(2))
        end = at + 5_000_000
        steps = [("COMPUTE_START", at + 20_000), ("COMPUTE_INPUT_END", at + 30_000)]
        steps += [("COMPUTE_OUTPUT_START", end - 60_000), ("COMPUTE_END", end - 30_000)]
        spans += [_span(trace, compute, stage, "compute", steps), _model(trace, stage, root, name, at, end, 7)]
        at = end + 10_000
    spans.append(_model(trace, root, front, "chat", start, at, 0))
    http = [("HTTP_RECV_START", start), ("HTTP_RECV_END", start), ("HTTP_SEND_START", at), ("HTTP_SEND_END", at)]
    return [*spans, _span(trace, front, "", "InferRequest", http)]


def _bodies() -> list[bytes]:
    """Return exports as Triton's exporter makes them: a dozen spans per request, 480 in a body."""
    draw, start, bodies = random.Random(3), 1_795_818_299_000_000_000, []
    for body in range(BODIES):
        spans = [span for i in range(REQUESTS_PER_BODY) for span in _request(draw, start + (body * 40 + i) * 10**7)]
        scope = [{"scope": {"name": "triton-server"}, "spans": spans}]
        service = {"attributes": [{"key": "service.name", "value": {"stringValue": "triton-inference-server"}}]}
        bodies.append(json.dumps({"resourceSpans": [{"resource": service, "scopeSpans": scope}]}).encode())
    return bodies


def _bare(bodies: list[bytes]) -> int:
    """Decode and walk: every span, attribute and event is looked at once."""
    seen = 0
    for body in bodies:
        for group in orjson.loads(body)["resourceSpans"]:
            for scope in group["scopeSpans"]:
                for span in scope["spans"]:
                    seen += 1
                    for event in span["events"]:
                        event["name"], event["timeUnixNano"]
                    for attribute in span.get("attributes", ()):
                        attribute["key"], attribute["value"]
    return seen


def _ours(bodies: list[bytes]) -> int:
    store = SpanStore()
    for body in bodies:
        store.add(body)
    assert len(store.traces().requests) == BODIES * REQUESTS_PER_BODY
    return store.counts.received


def _seconds(work: Callable[[list[bytes]], int], bodies: list[bytes]) -> float:
    start = time.process_time()
    work(bodies)
    return time.process_time() - start


def test_spans_become_requests_at_a_quarter_of_the_speed_of_bare_decoding_and_30000_a_second(goals: Goals):
    bodies = _bodies()
    spans = _bare(bodies)
    assert _ours(bodies) == spans
    bare, ours = [], []
    for _ in range(ROUNDS):
        bare.append(_seconds(_bare, bodies))
        ours.append(_seconds(_ours, bodies))

    bare_rate, rate = (spans / statistics.median(took) for took in (bare, ours))
    print(f"\n{spans} spans: {rate:,.0f}/s into requests, {bare_rate:,.0f}/s bare, {rate / bare_rate:.2f} of it")
    goals.at_least("spans into requests, part of the speed of decoding", rate / bare_rate, SHARE_OF_BARE)
    goals.at_least("spans into requests a second", rate, SPANS_PER_SECOND)
