"""HTTP servers on the loopback that answer with recorded bodies, or misbehave as they are told."""

from __future__ import annotations

import contextlib
import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from diagnostics.wire.capture import open_capture
from diagnostics.wire.records import BodyKind

CAPTURE = Path(__file__).parents[2] / "fixtures" / "captures" / "cpu-handed-single-instance.tar.xz"
Answer = Callable[[BaseHTTPRequestHandler], None]


@cache
def recorded() -> Mapping[tuple[BodyKind, str], bytes]:
    """The first body of each kind (and model) of a recorded incident."""
    bodies: dict[tuple[BodyKind, str], bytes] = {}
    for scrape in open_capture(CAPTURE).scrapes():
        if scrape.body is not None and scrape.kind is not BodyKind.REPOSITORY:
            bodies.setdefault((scrape.kind, scrape.name), scrape.body)
    return bodies


def body_of(kind: BodyKind) -> bytes:
    return recorded()[kind, ""]


@dataclass
class FakeServer:
    """One port. `routes` maps `METHOD path` to its answer; anything else is a 404."""

    routes: dict[str, Answer] = field(default_factory=dict)
    port: int = 0
    tls: ssl.SSLContext | None = None
    seen: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[FakeServer]:
        server = _Quiet(("127.0.0.1", self.port), self._handler())
        self.port = server.server_address[1]
        if self.tls:
            server.socket = self.tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.body = self.rfile.read(length)
                fake.seen.append((f"{self.command} {self.path}", dict(self.headers)))
                fake.routes.get(f"{self.command} {self.path}", status(404))(self)

            do_GET = do_POST = handle_any  # noqa: N815 - http.server calls them so

            def log_message(self, *_: object) -> None: ...

        return Handler


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: object) -> None: ...


def page(body: bytes, content_type: str = "text/plain", *, compress: bool = False) -> Answer:
    """Answer 200 with `body`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        data = gzip.compress(body) if compress else body
        handler.send_response(200)
        handler.send_header("Content-Type", content_type)
        handler.send_header("Content-Length", str(len(data)))
        if compress:
            handler.send_header("Content-Encoding", "gzip")
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer with an HTTP status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def cut_off(handler: BaseHTTPRequestHandler) -> None:
    """Promise more bytes than come."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"nv_inference_count 1\n")
    handler.close_connection = True


def silent(release: threading.Event) -> Answer:
    """Answer nothing until `release` is set."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        release.wait(10)
        handler.close_connection = True

    return answer


def dripping(release: threading.Event) -> Answer:
    """Send one byte every 20 ms, without end."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        while not release.wait(0.02):
            handler.wfile.write(b"#")
            handler.wfile.flush()

    return answer


def guarded(expected: str, answer: Answer) -> Answer:
    """Answer 401 unless the Authorization header is `expected`."""

    def check(handler: BaseHTTPRequestHandler) -> None:
        allowed = handler.headers.get("Authorization") == expected
        (answer if allowed else status(401))(handler)

    return check


def api_routes() -> dict[str, Answer]:
    """The inference port of the recorded server."""
    json = "application/json"
    routes = {
        "GET /v2": page(body_of(BodyKind.SERVER), json),
        "GET /v2/models/stats": page(body_of(BodyKind.STATISTICS), json),
        "POST /v2/repository/index": page(body_of(BodyKind.INDEX), json),
    }
    for (kind, name), body in recorded().items():
        if kind is BodyKind.CONFIG:
            routes[f"GET /v2/models/{name}/config"] = page(body, json)
    return routes


def metrics_routes() -> dict[str, Answer]:
    """The metrics port of the recorded server."""
    return {"GET /metrics": page(body_of(BodyKind.METRICS))}


@dataclass
class FakeTriton:
    """A server with its HTTP port at p and its metrics port at p + 2; either may be closed."""

    api: FakeServer | None
    metrics: FakeServer | None
    port: int


@contextlib.contextmanager
def fake_triton(*, api: bool = True, metrics: bool = True) -> Iterator[FakeTriton]:
    port = free_ports()
    fake = FakeTriton(
        api=FakeServer(api_routes(), port) if api else None,
        metrics=FakeServer(metrics_routes(), port + 2) if metrics else None,
        port=port,
    )
    with contextlib.ExitStack() as stack:
        for part in (fake.api, fake.metrics):
            if part:
                stack.enter_context(part.running())
        yield fake


def free_ports(count: int = 3) -> int:
    """Return the first of `count` consecutive ports that nobody listens on now."""
    for _ in range(100):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            first = stack.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            for offset in range(1, count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port + offset))
            return int(port)
    raise AssertionError("no free ports")
