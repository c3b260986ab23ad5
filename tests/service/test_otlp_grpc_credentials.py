"""OTLP over gRPC asks for what the HTTP server asks for: certificates, passwords, tokens, and not too often."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult

from diagnostics.errors import UsageError
from diagnostics.service import otlp_grpc
from diagnostics.service.http import otlp
from diagnostics.service.http.authentication import MOST_ATTEMPTS, Authentication
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.otlp import MOST
from diagnostics.service.otlp_grpc import SERVICE, OtlpGrpcServer, grpc_address
from diagnostics.settings.load import load
from exporters.sources.access import read_secret
from tests.service.http.door import HASHED, USER, basic, certificate
from tests.service.parts import count, until
from tests.service.receiving import Watched

TOKEN = "a-long-token"
TLS = "tls_server_config:\n  cert_file: localhost.pem\n  key_file: localhost.key\n"
USERS = f"basic_auth_users:\n  {USER}: {HASHED}\n"


class Closed(OtlpGrpcServer):
    """A door with what a test looks at."""

    watched: Watched
    authentication: Authentication

    def refresh(self) -> None:
        self.authentication.credentials.refresh()


@contextmanager
def closed(folder: Path, config: str = "", *, token: bool = True) -> Iterator[Closed]:
    flags = {"otlp.grpc_listen_address": "127.0.0.1:0"}
    if token:
        (folder / "token").write_text(TOKEN)
        flags["web.bearer_token_file"] = str(folder / "token")
    if config:
        (folder / "web.yml").write_text(config)
        flags["web.config_file"] = str(folder / "web.yml")
    settings, watched = load(None, {}, flags).settings, Watched()
    authentication = Authentication(Credentials(settings.web, read_secret))
    door = Closed(settings, watched.intake, authentication, watched.metrics)
    door.watched, door.authentication = watched, authentication
    door.start()
    try:
        yield door
    finally:
        door.stop()


def exported(door: Closed, trusted: bytes | None, header: str) -> SpanExportResult:
    """Send a span as a service's own exporter does."""
    tls = None if trusted is None else grpc.ssl_channel_credentials(trusted)
    where = f"127.0.0.1:{door.port}"
    exporter = OTLPSpanExporter(where, tls is None, tls, {"authorization": header}, timeout=5)
    span = TracerProvider().get_tracer("t").start_span("POST")
    span.end()
    try:
        return exporter.export([span])
    finally:
        exporter.shutdown()


def code(door: Closed, header: str | None = None, tls: grpc.ChannelCredentials | None = None) -> grpc.StatusCode | None:
    """Send an empty request; return how it was refused, None when it was not."""
    try:
        ask(door, header, tls)
    except grpc.RpcError as refused:
        return refused.code()
    return None


def ask(door: Closed, header: str | None = None, tls: grpc.ChannelCredentials | None = None) -> None:
    where = f"127.0.0.1:{door.port}"
    metadata = () if header is None else (("authorization", header),)
    with grpc.secure_channel(where, tls) if tls else grpc.insecure_channel(where) as channel:
        channel.unary_unary(f"/{SERVICE}/Export")(b"", timeout=5, metadata=metadata)


def test_an_exporter_with_the_token_is_let_in_over_tls_and_vouched_for(tmp_path: Path):
    cert, _ = certificate(tmp_path)
    with closed(tmp_path, TLS) as door:
        assert exported(door, cert.read_bytes(), f"Bearer {TOKEN}") is SpanExportResult.SUCCESS
        assert exported(door, cert.read_bytes(), "Bearer wrong") is SpanExportResult.FAILURE
        assert code(door, f"Bearer {TOKEN}") is grpc.StatusCode.UNAVAILABLE  # not over plain text
        trusted = grpc.ssl_channel_credentials(cert.read_bytes())
        assert code(door, None, trusted) is grpc.StatusCode.UNAUTHENTICATED
    (traced,) = door.watched.kept["chat"].traced
    assert (traced.about.vouched, [span.name for span in traced.spans]) == (True, ["POST"])
    assert count(door.watched.metrics, "diag_http_refused_total", reason="credentials") == 2


@pytest.mark.parametrize("header", [f"Bearer {TOKEN}x", "Bearer", f"Basic {TOKEN}", basic("bob"), "Digest x", None])
def test_everything_but_the_right_credentials_is_refused(tmp_path: Path, header: str | None):
    with closed(tmp_path, USERS) as door:
        assert code(door, header) is grpc.StatusCode.UNAUTHENTICATED
        assert code(door, f"Bearer {TOKEN}") is None
        assert code(door, basic()) is None


def test_wrong_passwords_are_limited_and_a_known_right_one_is_not(tmp_path: Path):
    with closed(tmp_path, USERS) as door:
        assert code(door, basic()) is None
        codes = {code(door, basic(USER, f"no{number}")) for number in range(MOST_ATTEMPTS)}
        assert codes == {grpc.StatusCode.UNAUTHENTICATED}
        with pytest.raises(grpc.RpcError) as refused:
            ask(door, basic(USER, "another"))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        retry = RetryInfo()
        assert Status.FromString(details).details[0].Unpack(retry)
        assert retry.retry_delay.seconds == 6
        assert code(door, basic()) is None


def test_a_renewed_certificate_is_taken_up(tmp_path: Path):
    cert, key = certificate(tmp_path)
    old = grpc.ssl_channel_credentials(cert.read_bytes())
    with closed(tmp_path, TLS) as door:
        assert code(door, f"Bearer {TOKEN}", old) is None
        renewed, renewed_key = certificate(tmp_path, "renewed")
        renewed_key.replace(key)
        renewed.replace(cert)
        door.refresh()
        new = grpc.ssl_channel_credentials(cert.read_bytes())
        assert code(door, f"Bearer {TOKEN}", new) is None
        assert code(door, f"Bearer {TOKEN}", old) is grpc.StatusCode.UNAVAILABLE


def test_clients_without_a_certificate_are_turned_away_where_one_is_required(tmp_path: Path):
    cert, key = certificate(tmp_path)
    required = "  client_ca_file: localhost.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
    with closed(tmp_path, TLS + required, token=False) as door:
        assert code(door, None, grpc.ssl_channel_credentials(cert.read_bytes())) is grpc.StatusCode.UNAVAILABLE
        own = grpc.ssl_channel_credentials(cert.read_bytes(), key.read_bytes(), cert.read_bytes())
        assert code(door, None, own) is None


def test_certificates_that_a_reload_began_to_require_let_nobody_in_without(tmp_path: Path):
    cert, _ = certificate(tmp_path)
    required = "  client_ca_file: localhost.pem\n  client_auth_type: RequireAndVerifyClientCert\n"
    with closed(tmp_path, TLS, token=False) as door:
        trusted = grpc.ssl_channel_credentials(cert.read_bytes())
        assert code(door, None, trusted) is None
        (tmp_path / "web.yml").write_text(TLS + required)
        door.refresh()
        assert code(door, None, trusted) is grpc.StatusCode.UNAUTHENTICATED


def test_what_grpc_cannot_keep_to_is_refused_at_the_start(tmp_path: Path):
    certificate(tmp_path)
    with pytest.raises(UsageError, match=r"otlp\.grpc_listen_address: gRPC speaks both"):
        closed(tmp_path, f"{TLS}  min_version: TLS13\n").__enter__()


def test_strangers_may_come_where_they_are_requested(tmp_path: Path):
    (tmp_path / "token").write_text(TOKEN)
    flags = {"otlp.grpc_listen_address": "0.0.0.0:4317", "web.bearer_token_file": str(tmp_path / "token")}
    settings = load(None, {}, flags).settings
    assert grpc_address(settings, Credentials(settings.web, read_secret)).everywhere


RIGHT = (("authorization", f"Bearer {TOKEN}"),)


@contextmanager
def unfinished(door: Closed, calls: int, metadata: tuple[tuple[str, str], ...] = ()) -> Iterator[list[grpc.Future]]:
    """Begin calls, each over a connection of its own, that send no message."""
    ends: SimpleQueue[None] = SimpleQueue()
    with ExitStack() as channels:
        own = [("grpc.use_local_subchannel_pool", 1)]
        opened = [channels.enter_context(grpc.insecure_channel(f"127.0.0.1:{door.port}", own)) for _ in range(calls)]
        begun = [
            one.stream_unary(f"/{SERVICE}/Export").future(iter(ends.get, None), metadata=metadata) for one in opened
        ]
        try:
            yield begun
        finally:
            for _ in range(calls):
                ends.put(None)


def test_credentials_are_requested_before_a_message_is_there(tmp_path: Path):
    with closed(tmp_path) as door, unfinished(door, 40) as calls:
        assert {call.exception(timeout=5).code() for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
        assert code(door, f"Bearer {TOKEN}") is None


def test_calls_that_send_nothing_give_way_and_keep_no_exporter_out(tmp_path: Path):
    with closed(tmp_path) as door, unfinished(door, 40, RIGHT) as calls:
        until(lambda: sum(call.done() for call in calls) == 40 - MOST)
        assert {call.exception().code() for call in calls if call.done()} == {grpc.StatusCode.UNAVAILABLE}
        assert code(door, f"Bearer {TOKEN}") is None


def test_a_call_has_a_deadline_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otlp, "WITHIN", 0.2)
    with closed(tmp_path) as door, unfinished(door, 1, RIGHT) as (call,):
        assert call.exception(timeout=5).code() is grpc.StatusCode.UNAVAILABLE


def test_connections_that_say_nothing_give_way_to_exporters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(otlp_grpc, "MOST_KEPT", 5)
    with closed(tmp_path) as door, ExitStack() as held:
        own = [("grpc.use_local_subchannel_pool", 1)]
        exporter = held.enter_context(grpc.insecure_channel(f"127.0.0.1:{door.port}", own))
        states: list[grpc.ChannelConnectivity] = []
        exporter.subscribe(states.append)
        export = exporter.unary_unary(f"/{SERVICE}/Export")
        export(b"", timeout=5, metadata=RIGHT)
        at = ("127.0.0.1", door.port)
        for _ in range(12):
            held.enter_context(socket.create_connection(at, timeout=5))
        until(lambda: count(door.watched.metrics, "diag_http_refused_total", reason="connections") == 8)
        export(b"", timeout=5, metadata=RIGHT)
        assert states[-1] is grpc.ChannelConnectivity.READY
        assert states.count(grpc.ChannelConnectivity.READY) == 1
