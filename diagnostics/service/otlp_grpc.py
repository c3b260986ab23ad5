"""How many connections gRPC holds: its library can only turn the newest away, so the oldest idle are ended here.

The library does not report its sockets; Linux lists them in /proc/self/fd (proc(5)). Elsewhere its own limit is all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from diagnostics.errors import CollectError, UsageError
from diagnostics.render.plain import clean
from diagnostics.service.http.authentication import SECONDS_PER_ATTEMPT, TOO_MANY, Authentication
from diagnostics.service.http.authentication import AuthOutcome as Credential
from diagnostics.service.http.credentials import Credentials, TlsFiles
from diagnostics.service.http.otlp import MOST, PendingUploads
from diagnostics.service.listening import LISTEN_SETTING, Listen, parse_listen, require_auth_if_public
from diagnostics.service.otlp_intake import ExportResponse, ExportStatus, Form, OtlpIntake, exported
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.service.peers import Peer, Peers, peer_of
from diagnostics.service.whole_messages import NoRoom
from diagnostics.settings.text_file import LARGEST_FILE, bytes_of
from diagnostics.settings.tree import Settings

# Between two looks; what comes meanwhile finds room up to the library's limit.
LOOK_EVERY = 0.25
MOST_KEPT = 96
# Each that is taken up and given up again under a flood costs the library half a megabyte for a while (measured).
MOST_CONNECTIONS = 128
LARGEST_HEADERS = 8 * 2**10
_FILES = Path("/proc/self/fd")


class GrpcConnections:
    """The connections at one port. Used within one event loop."""

    def __init__(self, port: int, metrics: OwnMetrics) -> None:
        self._port, self._metrics = port, metrics
        self._peers: Peers[str] = Peers()
        self._seen: dict[str, str] = {}
        # Those that asked since the last look, which may not have seen them.
        self._requested: dict[Peer, bool] = {}

    def requested(self, peer: Peer, *, admitted: bool) -> None:
        """Note that a peer asked for something, and whether it proved who it is."""
        self._requested[peer] = admitted or self._requested.get(peer, False)

    def look(self) -> None:
        """Take in who came and who left, and end the longest idle of too many."""
        files = {name: _target(name) for name in _listed()}
        sockets = {target: name for name, target in files.items() if target.startswith("socket:")}
        for target in sockets.keys() - self._seen.keys():
            peer = self._peer(target, sockets[target])
            if peer is not None:
                self._peers.came(peer, target)
        self._seen = sockets
        for peer, admitted in self._requested.items():
            self._peers.requested(peer, admitted=admitted)
        self._requested.clear()
        self._peers.forget(lambda target: target not in sockets)
        ended = self._peers.give_way(MOST_KEPT)
        for target in ended:
            _end(target, sockets[target])
        self._metrics.refused.labels("connections").inc(len(ended))

    def _peer(self, target: str, name: str) -> Peer | None:
        """Return who is at the other end of a socket; None where it is not one of the port's connections."""
        with contextlib.suppress(OSError), _duplicate(name) as one:
            if _target(str(one.fileno())) == target and one.family in (socket.AF_INET, socket.AF_INET6):
                return peer_of(one.getpeername()) if one.getsockname()[1] == self._port else None
        return None


def _end(target: str, name: str) -> None:
    with contextlib.suppress(OSError), _duplicate(name) as one:
        if _target(str(one.fileno())) == target:  # else the number was given to another file meanwhile
            one.shutdown(socket.SHUT_RDWR)


def _duplicate(name: str) -> socket.socket:
    number = os.dup(int(name))
    try:
        return socket.socket(fileno=number)
    except OSError:
        os.close(number)
        raise


def _listed() -> list[str]:
    try:
        return os.listdir(_FILES)  # noqa: PTH208 - names, of which there are thousands, four times a second
    except OSError:
        return []


def _target(name: str) -> str:
    """Return what a file is, as in `socket:[4711]`; empty where it was closed."""
    try:
        return os.readlink(_FILES / name)  # noqa: PTH115 - as above
    except OSError:
        return ""


log = logging.getLogger(__name__)
_VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def refuse_versions(tls: TlsFiles | None, setting: str) -> None:
    """Refuse what gRPC cannot keep to: it always speaks TLS 1.2 and 1.3.

    Raises:
        UsageError: the web configuration wants only one of them; `setting` is what asked for gRPC.

    """
    if tls is not None and (tls.min_version, tls.max_version) != _VERSIONS:
        hint = "leave min_version and max_version out of web.config_file, or take spans over HTTP only"
        raise UsageError("gRPC speaks both TLS 1.2 and TLS 1.3", where=setting, hint=hint)


def server_credentials(credentials: Credentials) -> Any:
    """Return gRPC's credentials of a server; None for plain text.

    Certificates of clients are asked for where they are required, and not where they are only verified if given.

    Raises:
        UsageError: a file cannot be read.

    """
    tls = credentials.config.tls
    if tls is None:
        return None
    return grpc.dynamic_ssl_server_credentials(
        _read(tls), _Changes(credentials).reload, require_client_authentication=credentials.config.certificates_required
    )


class _Changes:
    """Asked at each handshake whether there is something new."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials, self._taken = credentials, credentials.config

    def reload(self) -> Any:
        """Return the new certificate, key and authorities; None while nothing changed."""
        config = self._credentials.config
        if config is self._taken or config.tls is None:
            return None
        self._taken = config
        try:
            return _read(config.tls)
        except UsageError as error:
            log.warning("gRPC goes on with the certificate it has: %s", error)
            return None


def _read(tls: TlsFiles) -> Any:
    pair = (bytes_of(tls.key_file, LARGEST_FILE), bytes_of(tls.cert_file, LARGEST_FILE))
    authorities = bytes_of(tls.client_ca_file, LARGEST_FILE) if tls.client_ca_file else None
    return grpc.ssl_server_certificate_configuration([pair], root_certificates=authorities)


T = TypeVar("T")
SETTING = "otlp.grpc_listen_address"
SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
PATIENCE = 5.0
_DETAILS = "grpc-status-details-bin"
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # two services at one port would each see half of the spans
    ("grpc.max_allowed_incoming_connections", MOST_CONNECTIONS),
    ("grpc.max_concurrent_streams", MOST),
    # Calls that nobody has looked at yet hold their headers: 1,000 and 3,000 of them by default.
    ("grpc.server.max_pending_requests", 4 * MOST),
    ("grpc.server.max_pending_requests_hard_limit", 8 * MOST),
    ("grpc.max_metadata_size", LARGEST_HEADERS),
    ("grpc.absolute_max_metadata_size", LARGEST_HEADERS),
    # Of a connection so many bytes are read at once: 4 MiB by default.
    ("grpc.experimental.tcp_max_read_chunk_size", 64 * 2**10),
    # What is sent before anyone asks for it stays with the sender: 64 KiB of a connection come at once.
    ("grpc.http2.bdp_probe", 0),
    # As the page has it: milliseconds to say something, two minutes by default, and to say something more.
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_connection_idle_ms", 300_000),
)


def grpc_address(settings: Settings, credentials: Credentials) -> Listen:
    """Return where spans are received over gRPC.

    Raises:
        UsageError: the setting is no address, is the page's, or lets strangers in, or the web configuration wants what
            gRPC cannot do.

    """
    listen = parse_listen(settings.otlp.grpc_listen_address, SETTING)
    if listen.overlaps(parse_listen(settings.web.listen_address, LISTEN_SETTING)):
        raise UsageError(f"{listen} is taken by {LISTEN_SETTING}", where=SETTING, hint="choose another port")
    require_auth_if_public(listen, SETTING, requested=credentials.requested, allowed=settings.web.allow_unauthenticated)
    refuse_versions(credentials.config.tls, SETTING)
    return listen


class OtlpGrpcServer:
    """A part of the daemon. Binds its address when made. Asks for the credentials that the HTTP server asks for.

    Attributes:
        port: where it listens, also when the settings leave the choice to the system.

    """

    def __init__(
        self, settings: Settings, intake: OtlpIntake, authentication: Authentication, metrics: OwnMetrics
    ) -> None:
        """Bind; nothing is answered before `start`.

        Raises:
            UsageError: as `grpc_address`, or a certificate cannot be read.
            CollectError: the address cannot be bound.

        """
        self._intake, self._authentication, self._metrics = intake, authentication, metrics
        credentials = authentication.credentials
        listen = grpc_address(settings, credentials)
        self._certificates_required = credentials.config.certificates_required
        self._options = (*_OPTIONS, ("grpc.max_receive_message_length", settings.web.max_body))
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="otlp-grpc")
        self._arrivals = PendingUploads()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="otlp-grpc", daemon=True)
        self._thread.start()
        self._looking: asyncio.Task[None] | None = None
        try:
            self.port: int = self._wait(self._bound(listen, server_credentials(credentials)))
        except Exception:
            self._end()
            raise
        self._connections = GrpcConnections(self.port, metrics)

    def start(self) -> None:
        """Begin to answer."""
        self._wait(self._begin())
        log.info("receiving spans over gRPC at port %d", self.port)

    def stop(self) -> None:
        """Finish the requests under way, and end."""
        if self._looking is not None:
            self._loop.call_soon_threadsafe(self._looking.cancel)
        self._wait(self._server.stop(PATIENCE))
        self._end()

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns in the event loop, all of which is gRPC's."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._threads.shutdown()

    async def _bound(self, listen: Listen, tls: Any) -> int:
        self._server = grpc.aio.server(options=self._options)
        # As a stream of one message: such a method is called before the message is read.
        export = grpc.stream_unary_rpc_method_handler(
            self._export, response_serializer=ExportTraceServiceResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        where = str(listen) if listen.host else f"[::]:{listen.port}"
        try:
            return int(self._server.add_secure_port(where, tls) if tls else self._server.add_insecure_port(where))
        except RuntimeError:
            hint = f"free it, or choose another: {SETTING}"
            raise CollectError("cannot listen for gRPC", where=str(listen), hint=hint) from None

    async def _begin(self) -> None:
        await self._server.start()
        self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            self._connections.look()
            await asyncio.sleep(LOOK_EVERY)

    async def _export(self, _: object, context: Any) -> ExportTraceServiceResponse:
        host = host_of(context.peer())
        known = await self._admitted(context, host)
        answer = await self._taken(context, host, authenticated=known)
        if answer.status is ExportStatus.MALFORMED:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _line(answer.message))
        if answer.status is ExportStatus.THROTTLED:
            await _send_away(context, grpc.StatusCode.UNAVAILABLE, _line(answer.message), answer.retry_after)
        return exported(answer)

    async def _taken(self, context: Any, host: str, *, authenticated: bool) -> ExportResponse:
        """Return the answer to the message of a call, which is let go of before a call is ended with an error."""
        body = await self._message(context, host)
        try:
            with self._intake.whole.holding(len(body)):
                take = partial(self._intake.accept, body, Form.PROTOBUF, host, authenticated=authenticated)
                return await self._loop.run_in_executor(self._threads, take)
        except NoRoom as error:
            line = str(error)
        del body
        return await _send_away(context, grpc.StatusCode.UNAVAILABLE, line, 1)

    async def _message(self, context: Any, host: str) -> bytes:
        """Return the one message of a call; a sender that does not send it in time is sent away."""
        try:
            async with self._arrivals.of(host):
                message = await context.read()
        except TimeoutError:
            line = "the message gave way to newer ones, or did not come in time"
            await _send_away(context, grpc.StatusCode.UNAVAILABLE, line, 1)
        if message is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "there is no message")
        return bytes(message)

    async def _admitted(self, context: Any, host: str) -> bool:
        """Return whether the sender proved who it is; who should have and did not is sent away."""
        if self._authentication.credentials.config.certificates_required and not self._certificates_required:
            self._metrics.refused.labels("credentials").inc()
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "certificates are required since a reload: restart")
        header = dict(context.invocation_metadata()).get("authorization")
        answer = await self._authentication.answer(header, host)
        self._connections.requested(peer_of((host, port_of(context.peer()))), admitted=answer is Credential.ADMITTED)
        if answer is Credential.TOO_MANY:
            self._metrics.refused.labels("attempts").inc()
            await _send_away(context, grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY, round(SECONDS_PER_ATTEMPT))
        if answer in (Credential.MISSING, Credential.WRONG):
            self._metrics.refused.labels("credentials").inc()
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, f"credentials are {answer.value}")
        return answer is Credential.ADMITTED


def host_of(peer: str) -> str:
    """Return the address in what gRPC calls a peer, as in `ipv6:%5B::1%5D:4711`; empty where there is none."""
    family, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if family in ("ipv4", "ipv6") else ""


def port_of(peer: str) -> int:
    """Return the port in what gRPC calls a peer; 0 where there is none."""
    port = peer.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


async def _send_away(context: Any, code: grpc.StatusCode, line: str, seconds: int) -> NoReturn:
    """End a request with the details that make exporters wait and send again."""
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(seconds)
    status = RpcStatus(code=code.value[0], message=line)
    status.details.add().Pack(retry)
    context.set_trailing_metadata(((_DETAILS, status.SerializeToString()),))
    await context.abort(code, line)
    raise AssertionError(line)


def _line(message: str) -> str:
    return " ".join(clean(message).split())
