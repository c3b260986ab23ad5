"""Floods at the service's ports: `/healthz` answers within a second all along, and memory stays below 600 MB."""

from __future__ import annotations

import contextlib
import gzip
import json
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import grpc
import pytest
import urllib3

from diagnostics.wire.spans import MARKS, MODEL_NAME, MODEL_VERSION, SERVICE_NAME
from tests.attack.measuring import Attacked, attacked
from tests.collect.fake_triton import fake_triton, page

pytestmark = [pytest.mark.live, pytest.mark.attack]
SECONDS = 2.0
"""Of each flood."""
SENDERS = 16
OPENED = 2_000
"""Connections that all senders together open in a second. Of many more the system's queue is full on a busy machine:
it drops what comes, and TCP tries again after a second (tcp(7), tcp_syn_retries), whatever the service does."""
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
METHOD = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
JSON_KIND = "application/json"
LARGEST = 4 * 2**20
POST = b"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


def frame(kind: int, data: bytes = b"", *, stream: int = 0, flags: int = 0) -> bytes:
    """Return a frame of HTTP/2 (RFC 9113, 4.1)."""
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


def rapid_reset(stream: int) -> bytes:
    """Return a request that is taken back at once (CVE-2023-44487)."""
    path = b"\x44" + bytes([len(METHOD)]) + METHOD.encode()
    return frame(HEADERS, b"\x83\x86" + path, stream=stream, flags=4) + frame(RESET, b"\0\0\0\x08", stream=stream)


def call(stream: int, flags: int = 4) -> bytes:
    """Return the begin of a call as gRPC writes it."""
    path = b"\x44" + bytes([len(METHOD)]) + METHOD.encode()
    kind = b"\x0f\x10\x10application/grpc" + b"\0\x02te\x08trailers"
    return frame(HEADERS, b"\x83\x86" + path + kind, stream=stream, flags=flags)


def made_reset(stream: int) -> bytes:
    """Return a call that the server has to take back itself (CVE-2025-8671): a window beyond the largest."""
    return call(stream) + 2 * frame(WINDOW, b"\x7f\xff\xff\xff", stream=stream)


def long_headers(stream: int) -> bytes:
    """Return the begin of a call with 15 KB of headers, which nobody ends."""
    path = b"\x44" + bytes([len(METHOD)]) + METHOD.encode()
    value = b"\x7f" + bytes([(15_000 - 127) & 127 | 128, (15_000 - 127) >> 7]) + b"v" * 15_000
    return frame(HEADERS, b"\x83\x86" + path + b"\0\1x" + value, stream=stream, flags=4)


def side_by_side(work: Callable[[float], object], senders: int = SENDERS) -> None:
    """Run so many senders, each until the flood's end."""
    end = time.monotonic() + SECONDS
    threads = [threading.Thread(target=work, args=(end,), daemon=True) for _ in range(senders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 30)


def held_open(port: int, begin: bytes, drip: bytes = b"") -> None:
    """Open connections at a steady rate, say how each begins, and let those that stay drip on."""

    def work(end: float) -> None:
        kept: list[socket.socket] = []
        due = time.monotonic()
        while time.monotonic() < end:
            due += SENDERS / OPENED
            time.sleep(max(due - time.monotonic(), 0.0))
            with contextlib.suppress(OSError):
                one = socket.create_connection(("127.0.0.1", port), 2)
                one.sendall(begin)
                kept.append(one)
            for one in kept[-20:] if drip else ():
                with contextlib.suppress(OSError):
                    one.send(drip)
            if len(kept) > 100:
                kept.pop(0).close()
        for one in kept:
            one.close()

    side_by_side(work)


def posted(url: str, body: bytes, kind: str, path: str = "/v1/traces", **headers: str) -> None:
    """Post a body again and again from all senders."""

    def work(end: float) -> None:
        with urllib3.PoolManager(retries=False, timeout=30) as pool:
            while time.monotonic() < end:
                with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
                    pool.request("POST", f"{url}{path}", body=body, headers={"Content-Type": kind, **headers})

    side_by_side(work)


def called(port: int, body: bytes) -> None:
    """Send a message over gRPC again and again from all senders."""

    def work(end: float) -> None:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            export = channel.unary_unary(METHOD)
            while time.monotonic() < end:
                with contextlib.suppress(grpc.RpcError):
                    export(body, timeout=10)

    side_by_side(work)


def field(number: int, inner: bytes) -> bytes:
    """Return a field of protobuf with a length."""
    length, parts = len(inner), bytearray([number << 3 | 2])
    while length > 127:
        parts.append(length & 127 | 128)
        length >>= 7
    return bytes(parts) + bytes([length]) + inner


def repeated(number: int, inner: bytes, room: int = LARGEST - 100) -> bytes:
    one = field(number, inner)
    return one * (room // len(one))


def in_spans(inner: bytes) -> bytes:
    """Return an export request of these spans."""
    return field(1, field(2, inner))


def whole_span(more: bytes) -> bytes:
    now = time.time_ns()
    times = b"\x39" + now.to_bytes(8, "little") + b"\x41" + (now + 10).to_bytes(8, "little")
    return in_spans(field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + times + more))


PROTOBUF = {
    "resources": lambda: repeated(1, b""),
    "scopes": lambda: field(1, repeated(2, b"")),
    "spans": lambda: in_spans(repeated(2, b"")),
    "attributes of a resource": lambda: field(1, field(1, repeated(1, b""))),
    "attributes of a span": lambda: whole_span(repeated(9, b"")),
    "named attributes of a span": lambda: whole_span(repeated(9, field(1, b"triton.model_name"))),
    "events of a span": lambda: whole_span(repeated(11, b"")),
    "known events of a span": lambda: whole_span(repeated(11, field(2, b"COMPUTE_START"))),
    "links of a span": lambda: whole_span(repeated(13, b"")),
    "values of an attribute": lambda: whole_span(field(9, field(2, field(5, repeated(1, b""))))),
    "unknown fields": lambda: repeated(8, b""),
}


def one_span(**more: str) -> str:
    now = time.time_ns()
    keys = {"traceId": "ab" * 16, "spanId": "cd" * 8, "startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10)}
    return json.dumps({**keys, "attributes": "@A@", "events": "@E@"})[:-1] + "}"


def fat_spans(count: int) -> bytes:
    """Return spans of 5 names of 64 characters and 16 events, as many as are kept of each, of traces of their own."""
    now = time.time_ns()
    marks = [{"name": name, "timeUnixNano": str(now + at)} for at, name in enumerate(MARKS)]

    def text() -> str:
        return "\N{GRINNING FACE}" * 56 + secrets.token_hex(4)

    def named(keys: Iterable[str]) -> list[object]:
        return [{"key": key, "value": {"stringValue": text()}} for key in keys]

    def one() -> dict[str, object]:
        ids = {"traceId": secrets.token_hex(32), "spanId": secrets.token_hex(32), "parentSpanId": secrets.token_hex(32)}
        times = {"startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10)}
        return {**ids, **times, "name": text(), "attributes": named((MODEL_NAME, MODEL_VERSION)), "events": marks}

    def group() -> dict[str, object]:
        return {"resource": {"attributes": named((SERVICE_NAME, "host.name"))}, "scopeSpans": [{"spans": [one()]}]}

    return json.dumps({"resourceSpans": [group() for _ in range(count)]}).encode()


def in_json(inner: str) -> bytes:
    return ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + inner + "]}]}]}").encode()


def listed(part: str, room: int = LARGEST - 1000) -> str:
    return ",".join([part] * (room // (len(part) + 1)))


def spanned(attributes: str = "", events: str = "") -> bytes:
    return in_json(one_span().replace('"@A@"', f"[{attributes}]").replace('"@E@"', f"[{events}]"))


JSON = {
    "empty objects": lambda: listed("{}").join(('{"resourceSpans":[', "]}")).encode(),
    "padded empty objects": lambda: listed("{}" + " " * 9).join(('{"resourceSpans":[', "]}")).encode(),
    "padded empty spans": lambda: in_json(listed("{}" + " " * 9)),
    "padded attributes": lambda: spanned(listed("{}" + " " * 9)),
    "padded events": lambda: spanned(events=listed("{}" + " " * 9)),
    "known events": lambda: spanned(events=listed('{"name":"COMPUTE_START","timeUnixNano":"9"}')),
    "lines": lambda: b"{}        \n" * (LARGEST // 11),
    "brackets": lambda: b"[" * LARGEST,
    "escapes": lambda: in_json('"' + "\\u0000" * (LARGEST // 6 - 100) + '"'),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """One service for all floods, whose memory is bounded under all of them."""
    with attacked(tmp_path_factory.mktemp("flooded")) as one:
        yield one


def test_protobuf(service: Attacked):
    with service.holding():
        for make in PROTOBUF.values():
            posted(service.url, make(), "application/x-protobuf")


def test_grpc_messages(service: Attacked):
    with service.holding():
        for make in PROTOBUF.values():
            called(service.grpc, make())


def test_json(service: Attacked):
    with service.holding():
        for make in JSON.values():
            posted(service.url, make(), JSON_KIND)
            posted(service.url, gzip.compress(make(), 1), JSON_KIND, **{"Content-Encoding": "gzip"})


def test_spans_full_of_text(service: Attacked):
    """Each of its own trace, whose names and events are as many and as long as they can be."""

    def work(end: float) -> None:
        with urllib3.PoolManager(retries=False, timeout=30) as pool:
            while time.monotonic() < end:
                body = fat_spans(400)
                with contextlib.suppress(urllib3.exceptions.HTTPError, OSError):
                    pool.request("POST", f"{service.url}/v1/traces", body=body, headers={"Content-Type": JSON_KIND})

    with service.holding():
        for _ in range(5):
            side_by_side(work, 4)


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"", b""),
        (b"GET / HT", b""),
        (b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ", b"a"),
        (POST + b"Content-Length: 4000000\r\n\r\n{", b" "),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["silent", "half a line", "headers without end", "slow body", "chunks without end"],
)
def test_http_connections(service: Attacked, begin: bytes, drip: bytes):
    with service.holding():
        held_open(service.port, begin, drip)


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
@pytest.mark.parametrize(
    "begin", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], ids=["silent", "half a hello"]
)
def test_tls_handshakes_that_nobody_ends(tmp_path: Path, begin: bytes):
    with attacked(tmp_path, tls=True) as service, service.holding():
        held_open(service.port, begin, b"\0" if begin else b"")
        held_open(service.grpc, begin, b"\0" if begin else b"")


@pytest.mark.parametrize(
    ("begin", "drip"),
    [
        (b"", b""),
        (PREFACE[:10], b""),
        (PREFACE + frame(SETTINGS), frame(SETTINGS)),
        (PREFACE + frame(SETTINGS), frame(PING, b"p" * 8)),
        (PREFACE + frame(SETTINGS) + frame(HEADERS, b"\x82", stream=1), frame(CONTINUATION, b"\x82" * 1000, stream=1)),
        (PREFACE + frame(SETTINGS), b"".join(rapid_reset(stream) for stream in range(1, 401, 2))),
        (PREFACE + frame(SETTINGS) + frame(HEADERS, b"\x82", stream=1), 2_000 * frame(CONTINUATION, stream=1)),
        (PREFACE + frame(SETTINGS) + call(1), 2_000 * frame(DATA, stream=1)),
        (PREFACE + frame(SETTINGS, b"\0\4\0\0\0\0"), b"".join(call(stream, flags=5) for stream in range(1, 201, 2))),
        (
            PREFACE + frame(SETTINGS),
            b"".join(frame(PRIORITY, b"\0\0\0\0\x10", stream=one) for one in range(1, 6001, 2)),
        ),
        (PREFACE + frame(SETTINGS), b"".join(made_reset(stream) for stream in range(1, 401, 2))),
        (PREFACE + frame(SETTINGS), b"".join(long_headers(stream) for stream in range(1, 41, 2))),
    ],
    ids=[
        "silent",
        "half a preface",
        "settings",
        "pings",
        "headers without end",
        "rapid reset",
        "empty continuations",
        "empty data",
        "window of nothing",
        "priorities",
        "made you reset",
        "long headers",
    ],
)
def test_http2_connections(service: Attacked, begin: bytes, drip: bytes):
    with service.holding():
        held_open(service.grpc, begin, drip)


@pytest.mark.filterwarnings("ignore::urllib3.exceptions.InsecureRequestWarning")
def test_a_client_cannot_have_keys_agreed_on_again_and_again(tmp_path: Path):
    """Each time costs the server more than the client (CVE-2011-1473)."""
    with attacked(tmp_path, tls=True) as service:
        for port, spoken in ((service.port, "http/1.1"), (service.grpc, "h2")):
            options = ("-tls1_2", "-legacy_renegotiation", "-alpn", spoken, "-connect", f"127.0.0.1:{port}")
            done = subprocess.run(
                ("openssl", "s_client", *options), input=b"R\n", capture_output=True, timeout=20, check=False
            )
            assert b"RENEGOTIATING" in done.stdout + done.stderr
            assert done.returncode != 0


CALLS = {
    "objects": lambda room: (
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + b"{}," * (room // 3) + b"{}]}}"
    ),
    "nested": lambda room: b'{"a":' * (room // 5),
    "many calls": lambda room: b"[" + b'{"jsonrpc":"2.0","id":1,"method":"ping"},' * (room // 41) + b"1]",
}


def test_calls_of_tools(tmp_path: Path):
    """The protocol's library makes objects of all that it reads: of 4 MiB at once 1,700 MiB by 16 senders."""
    with attacked(tmp_path, web="mcp = true\n") as service, service.holding():
        for make in CALLS.values():
            for room in (LARGEST - 1000, 60_000):
                posted(service.url, make(room), JSON_KIND, "/mcp", Accept="application/json, text/event-stream")


def test_streams_of_tools_that_nobody_reads(tmp_path: Path):
    accepted = b" /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
    slow = b"POST" + accepted + b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{"
    with attacked(tmp_path, web="mcp = true\n") as service, service.holding():
        held_open(service.port, b"GET" + accepted + b"\r\n")
        held_open(service.port, slow, b" ")
        time.sleep(1.0)
        log = service.service.log.read_text()
    assert "Traceback" not in log
    assert len(log) < 200_000


ROUNDS_OF_BAD_PAGES = 5
INTERVAL = 5.0


@pytest.mark.parametrize("healthy", [False, True], ids=["alone", "beside a healthy server"])
def test_a_server_with_new_names_on_each_page(tmp_path: Path, *, healthy: bool):
    """120,000 lines a round, each of a model that was not there before: another server is judged within two rounds."""
    pages: list[None] = []

    def grown(handler: BaseHTTPRequestHandler) -> None:
        pages.append(None)
        number = len(pages)
        lines = (f'nv_inference_count{{model="m{number}-{at}",version="1"}} {at}\n' for at in range(120_000))
        page("".join(lines).encode())(handler)

    with fake_triton() as bad:
        assert bad.metrics is not None
        bad.metrics.routes["GET /metrics"] = grown
        server = f'url = "http://127.0.0.1:{bad.port}"\ninterval = "{INTERVAL:g}s"\ntimeout = "{INTERVAL:g}s"\n'
        with attacked(tmp_path, f"[[server]]\n{server}", watched=healthy) as service, service.holding():
            judged, since, slowest = None, time.monotonic(), 0.0
            end = time.monotonic() + 4 * ROUNDS_OF_BAD_PAGES * INTERVAL
            while len(pages) < ROUNDS_OF_BAD_PAGES and time.monotonic() < end:
                name, now = f"127.0.0.1:{service.triton.port}", time.monotonic()
                found = [one["at"] for one in service.service.json("/api/v1/deployments") if one["name"] == name]
                if found and found[0] != judged:
                    slowest = max(slowest, now - since if judged else 0.0)
                    judged, since = found[0], now
                time.sleep(0.2)
        assert len(pages) > 1
        assert not healthy or (judged and max(slowest, time.monotonic() - since) < 2 * INTERVAL)
