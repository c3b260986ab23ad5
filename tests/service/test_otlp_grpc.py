"""OTLP over gRPC: a service's own exporter, limits, and what exporters are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from diagnostics.errors import CollectError, UsageError
from diagnostics.service.http.authentication import Authentication
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.otlp_grpc import SERVICE, OtlpGrpcServer, host_of
from diagnostics.settings.load import load
from diagnostics.settings.tree import Settings
from exporters.sources.access import read_secret
from tests.service.receiving import Watched

MOST = 200_000


def chosen(address: str = "127.0.0.1:0", **more: str) -> Settings:
    flags = {"otlp.grpc_listen_address": address, "web.max_body": f"{MOST}B"}
    return load(None, {}, flags | {name.replace("__", "."): text for name, text in more.items()}).settings


def made(settings: Settings, watched: Watched) -> OtlpGrpcServer:
    authentication = Authentication(Credentials(settings.web, read_secret))
    return OtlpGrpcServer(settings, watched.intake, authentication, watched.metrics)


@contextmanager
def opened(watched: Watched, **more: str) -> Iterator[OtlpGrpcServer]:
    door = made(chosen(**more), watched)
    door.start()
    try:
        yield door
    finally:
        door.stop()


def send(door: OtlpGrpcServer, sent: bytes, compression: grpc.Compression = grpc.Compression.NoCompression) -> bytes:
    """Send bytes as a request, whatever they are, and return the answer's."""
    with grpc.insecure_channel(f"127.0.0.1:{door.port}") as channel:
        return channel.unary_unary(f"/{SERVICE}/Export")(sent, timeout=10, compression=compression)


def request(*traces: int) -> bytes:
    made = ExportTraceServiceRequest()
    spans = made.resource_spans.add().scope_spans.add().spans
    for number in traces:
        spans.add(trace_id=bytes([number]) * 16, span_id=b"12345678", start_time_unix_nano=1, end_time_unix_nano=2)
    return made.SerializeToString()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_services_own_exporter_is_understood(compression: grpc.Compression):
    watched = Watched()
    with opened(watched) as door:
        exporter = OTLPSpanExporter(f"127.0.0.1:{door.port}", insecure=True, compression=compression)
        provider = TracerProvider(resource=Resource({"service.name": "shell"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("t").start_as_current_span("POST"):
            pass
        provider.shutdown()
    (span,) = watched.kept["chat"].spans
    assert (span.service, span.name) == ("shell", "POST")
    assert watched.kept["chat"].traced[0].about.vouched


def test_what_is_no_request_is_an_invalid_argument():
    with opened(Watched()) as door, pytest.raises(grpc.RpcError) as refused:
        send(door, b"\xff\xff\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_beyond_the_allowance_exporters_are_reported_when_to_come_back():
    watched = Watched(per_second=1)
    with opened(watched) as door:
        send(door, request(1))
        with pytest.raises(grpc.RpcError) as refused:
            send(door, request(2))
        watched.now += 1.0
        send(door, request(2))
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
    retry = RetryInfo()
    assert Status.FromString(details).details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_a_message_that_is_too_large_is_refused_unpacked_too(compression: grpc.Compression):
    watched = Watched()
    with opened(watched) as door:
        with pytest.raises(grpc.RpcError) as refused:
            send(door, b"\x0a" * (40 * MOST), compression)
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        send(door, request(1))
    assert len(watched.kept["chat"].spans) == 1


def test_it_does_not_listen_for_strangers_unless_reported_to():
    with pytest.raises(UsageError, match="lets everyone in"):
        made(chosen("0.0.0.0:0"), Watched())
    door = made(chosen(":0", web__allow_unauthenticated="true"), Watched())
    assert door.port
    door.stop()


def test_an_address_in_use_is_reported_in_a_line():
    watched = Watched()
    with opened(watched) as door, pytest.raises(CollectError, match="cannot listen"):
        made(chosen(f"127.0.0.1:{door.port}"), watched)


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:4711", "127.0.0.1"),
        ("ipv6:%5B::1%5D:4711", "::1"),
        ("ipv6:[::ffff:192.0.2.7]:4711", "::ffff:192.0.2.7"),
        ("unix:/run/x", ""),
    ],
)
def test_the_senders_address_is_taken_out_of_what_grpc_calls_a_peer(peer: str, host: str):
    assert host_of(peer) == host
