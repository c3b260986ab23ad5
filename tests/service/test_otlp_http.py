"""POST /v1/traces: what the OpenTelemetry protocol wants of a receiver, and what nobody should be able to do to it."""

from __future__ import annotations

import gzip
import json
import threading
from pathlib import Path

import pytest
import urllib3
from google.protobuf.json_format import Parse
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from diagnostics.service import whole_messages
from tests.service.http.door import Door
from tests.service.receiving import SPANS_A_TRACE, Watched, body, receiving

JSON, PROTOBUF = "application/json", "application/x-protobuf"
MOST = 200_000


def post(door: Door, sent: bytes, kind: str = JSON, **headers: str) -> urllib3.BaseHTTPResponse:
    return door.ask("/v1/traces", "POST", body=sent, Content_Type=kind, **headers)


@pytest.fixture(scope="module")
def taking() -> tuple[Watched, Door]:
    with receiving(web__max_body=f"{MOST}B") as both:
        yield both


def test_json_is_answered_in_json(taking: tuple[Watched, Door]):
    watched, door = taking
    before = len(watched.kept["chat"].spans)
    answer = post(door, body(1), "application/json; charset=utf-8")
    assert (answer.status, answer.headers["content-type"], json.loads(answer.data)) == (200, JSON, {})
    assert len(watched.kept["chat"].spans) - before == SPANS_A_TRACE


def test_gzip_is_unpacked(taking: tuple[Watched, Door]):
    watched, door = taking
    before = len(watched.kept["chat"].spans)
    assert post(door, gzip.compress(body(1)), Content_Encoding="gzip").status == 200
    assert len(watched.kept["chat"].spans) - before == SPANS_A_TRACE


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_a_services_own_exporter_is_understood(taking: tuple[Watched, Door], compression: Compression):
    watched, door = taking
    exporter = OTLPSpanExporter(f"{door.url}/v1/traces", compression=compression)
    provider = TracerProvider(resource=Resource({"service.name": "shell", "host.name": "front"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("t").start_as_current_span("POST"):
        pass
    provider.shutdown()
    newest = watched.kept["chat"].spans[-1]
    assert (newest.service, newest.instance, newest.name) == ("shell", "front", "POST")


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_what_cannot_be_read_is_a_status_in_the_requests_encoding(taking: tuple[Watched, Door], kind: str):
    answer = post(taking[1], b"\xff\xff{", kind)
    assert (answer.status, answer.headers["content-type"]) == (400, kind)
    stated = json.loads(answer.data) if kind == JSON else Status.FromString(answer.data)
    assert "cannot be read" in stated["message"] if kind == JSON else stated.code == 3


def test_a_body_that_declares_json_is_not_taken_for_gzip(taking: tuple[Watched, Door]):
    answer = post(taking[1], gzip.compress(body(1)))
    assert answer.status == 400
    assert b"the body is gzip beyond what its Content-Encoding says" in answer.data


def test_gzip_inside_of_gzip_is_no_export(taking: tuple[Watched, Door]):
    twice = gzip.compress(gzip.compress(body(1)))
    assert post(taking[1], twice, Content_Encoding="gzip").status == 400


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip"])
def test_other_encodings_are_refused(taking: tuple[Watched, Door], encoding: str):
    assert post(taking[1], body(1), Content_Encoding=encoding).status == 415


@pytest.mark.parametrize(
    "broken",
    [b"no gzip", gzip.compress(b"{}")[:-9], gzip.compress(b"{}") + b"more"],
    ids=["no gzip", "cut off", "followed by more"],
)
def test_damaged_gzip_is_refused(taking: tuple[Watched, Door], broken: bytes):
    assert post(taking[1], broken, Content_Encoding="gzip").status == 400


def test_a_bomb_is_refused_once_it_is_larger_than_a_body_may_be(taking: tuple[Watched, Door]):
    bomb = gzip.compress(b" " * (150 * MOST))
    assert len(bomb) < MOST
    answer = post(taking[1], bomb, PROTOBUF, Content_Encoding="gzip")
    assert (answer.status, answer.headers["content-type"]) == (413, PROTOBUF)
    assert Status.FromString(answer.data).message == f"the body unpacks to more than {MOST} bytes"


def test_a_body_exactly_as_large_as_may_be_is_taken(taking: tuple[Watched, Door]):
    sent = body(1)
    assert post(taking[1], gzip.compress(sent + b" " * (MOST - len(sent))), Content_Encoding="gzip").status == 200


def test_a_body_of_unknown_length_is_bounded_too(taking: tuple[Watched, Door]):
    with urllib3.PoolManager(retries=False, timeout=10) as pool:
        chunks = (b" " * 10_000 for _ in range(MOST // 10_000 + 1))
        headers = {"Content-Type": JSON}
        answer = pool.request("POST", f"{taking[1].url}/v1/traces", body=chunks, headers=headers)
    assert (answer.status, json.loads(answer.data)["code"]) == (413, 3)


def test_spans_that_are_not_taken_are_reported_as_partial_success():
    with receiving(Watched(per_second=10)) as (_, door):
        answer = post(door, body(1, 2))
        assert json.loads(answer.data)["partialSuccess"]["rejectedSpans"] == "2"


def test_beyond_the_allowance_the_answer_says_when_to_come_back():
    with receiving(Watched(per_second=SPANS_A_TRACE)) as (watched, door):
        assert post(door, body(1)).status == 200
        answer = post(door, b"", PROTOBUF)
        assert (answer.status, answer.headers["retry-after"]) == (429, "1")
        assert Status.FromString(answer.data).code == 8
        watched.now += 1.0
        assert ExportTraceServiceResponse.FromString(post(door, b"", PROTOBUF).data) == ExportTraceServiceResponse()


def test_more_bodies_at_once_than_there_is_room_for_are_sent_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(whole_messages, "MOST_WHOLE", 1)
    entered, leave = threading.Event(), threading.Event()

    class Slow(Watched):
        def __post_init__(self) -> None:
            super().__post_init__()
            give = self.kept["chat"].give

            def slowly(arrival: object) -> bool:
                entered.set()
                return leave.wait(10) and give(arrival)

            self.kept["chat"].give = slowly

    with receiving(Slow()) as (_, door):
        first = threading.Thread(target=post, args=(door, body(1)))
        first.start()
        assert entered.wait(10)
        try:
            assert post(door, body(2)).headers.get("retry-after")
            assert door.ask("/healthz").status == 200
        finally:
            leave.set()
            first.join()
        assert post(door, body(3)).status == 200


def test_where_spans_are_not_wanted_there_is_no_such_path():
    with receiving(otlp__http="false") as (_, door):
        assert post(door, body(1)).status == 404


ENCODINGS = st.sampled_from([None, "gzip", "identity", "br", "x"])
KINDS = st.one_of(
    st.sampled_from([JSON, PROTOBUF, "text/plain", ""]),
    st.text(st.characters(codec="ascii", categories=["L", "N", "P"])),
)
SHAPED = st.recursive(
    st.none() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(
                [
                    "resourceSpans",
                    "scopeSpans",
                    "spans",
                    "resource",
                    "attributes",
                    "key",
                    "value",
                    "traceId",
                    "spanId",
                    "startTimeUnixNano",
                    "endTimeUnixNano",
                    "events",
                    "intValue",
                ]
            ),
            inner,
        )
    ),
    max_leaves=20,
).map(lambda made: json.dumps(made).encode())
ONE_CONNECTION = urllib3.PoolManager(retries=False, timeout=10)
BODIES = st.one_of(st.binary(max_size=2_000), SHAPED, SHAPED.map(gzip.compress), st.binary().map(gzip.compress))


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)
@given(BODIES, KINDS, ENCODINGS)
def test_nothing_that_is_sent_makes_the_receiver_fail(
    taking: tuple[Watched, Door], sent: bytes, kind: str, encoding: str | None
):
    headers = {"Content-Type": kind} | ({"Content-Encoding": encoding} if encoding else {})
    answer = ONE_CONNECTION.request("POST", f"{taking[1].url}/v1/traces", body=sent, headers=headers)
    assert answer.status in (200, 400, 413, 415)


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [({"Host": "evil.example"}, 421, 3), ({"Origin": "http://evil.example"}, 403, 7), ({}, 413, 3)],
    ids=["another host", "another site's page", "too large"],
)
def test_what_the_door_refuses_is_a_status_in_the_requests_encoding(
    taking: tuple[Watched, Door], kind: str, headers: dict[str, str], status: int, code: int
):
    sent = b" " * (MOST + 1) if status == 413 else body(1)
    answer = post(taking[1], sent, kind, **headers)
    assert (answer.status, answer.headers["content-type"]) == (status, kind)
    stated = Parse(answer.data, Status()) if kind == JSON else Status.FromString(answer.data)
    assert (stated.code, bool(stated.message)) == (code, True)


def test_a_body_of_no_known_form_is_refused_with_a_status_in_json(taking: tuple[Watched, Door]):
    answer = post(taking[1], b"", "text/plain")
    assert (answer.status, Parse(answer.data, Status()).code) == (415, 3)


def test_who_sends_without_the_token_is_reported_in_the_requests_encoding(tmp_path: Path):
    (tmp_path / "token").write_text("a-long-token")
    with receiving(web__bearer_token_file=str(tmp_path / "token")) as (watched, door):
        for kind in (JSON, PROTOBUF):
            answer = post(door, body(1), kind, Authorization="Bearer wrong")
            stated = Parse(answer.data, Status()) if kind == JSON else Status.FromString(answer.data)
            assert (answer.status, answer.headers["www-authenticate"], stated.code) == (401, 'Bearer realm="diag"', 16)
        assert post(door, body(1), Authorization="Bearer a-long-token").status == 200
    assert [one.about.vouched for one in watched.kept["chat"].traced] == [True]
