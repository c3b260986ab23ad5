"""A collector that keeps what it is sent, over HTTP."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@dataclass
class OtelCollector:
    """Answers with `status`, or not at all before `gate` is set."""

    port: int = 0
    status: int = 200
    gate: threading.Event | None = None
    headers: list[Mapping[str, str]] = field(default_factory=list)
    traces: list[ExportTraceServiceRequest] = field(default_factory=list)
    metrics: list[ExportMetricsServiceRequest] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def spans(self) -> list[Span]:
        kept = tuple(self.traces)
        return [
            one for sent in kept for part in sent.resource_spans for inner in part.scope_spans for one in inner.spans
        ]

    def named(self, name: str) -> list[Span]:
        return [one for one in self.spans if one.name == name]

    @property
    def resource(self) -> dict[str, Any]:
        """Who sent what came last."""
        sent = self.traces[-1].resource_spans if self.traces else self.metrics[-1].resource_metrics
        return stated(sent[0].resource.attributes)

    @property
    def newest(self) -> dict[str, Metric]:
        """The metrics that came last, by name."""
        (part,) = self.metrics[-1].resource_metrics[0].scope_metrics
        return {one.name: one for one in part.metrics}

    def take(self, path: str, headers: Mapping[str, str], body: bytes) -> int:
        if self.gate is not None:
            self.gate.wait(10)
        self.headers.append(headers)
        if self.status == 200:
            kept: list[Any] = self.traces if path == "/v1/traces" else self.metrics
            made: Message = ExportTraceServiceRequest() if path == "/v1/traces" else ExportMetricsServiceRequest()
            made.ParseFromString(body)
            kept.append(made)
        return self.status


def stated(attributes: Any) -> dict[str, Any]:
    """Return attributes as a dictionary."""

    def value(one: KeyValue) -> Any:
        return getattr(one.value, str(one.value.WhichOneof("value")))

    return {one.key: value(one) for one in attributes}


@contextmanager
def collecting(**given: Any) -> Iterator[OtelCollector]:
    """Run a collector on a port of the loopback."""
    collector = OtelCollector(**given)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = collector.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        if collector.gate is not None:
            collector.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
