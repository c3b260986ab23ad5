"""OTLP over gRPC at `otlp.grpc_listen_address`: the service TraceService of the OpenTelemetry protocol."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from diagnostics.errors import CollectError, UsageError
from diagnostics.render.clean import clean
from diagnostics.service.grpc_tls import refuse_versions, server_credentials
from diagnostics.service.http.authentication import SECONDS_PER_ATTEMPT, TOO_MANY, Authentication
from diagnostics.service.http.authentication import Answer as Credential
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.listening import LISTEN_SETTING, Listen, parse_listen, refuse_strangers
from diagnostics.service.otlp_intake import Form, OtlpIntake, Status, exported
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.settings.tree import Settings

log = logging.getLogger(__name__)
SETTING = "otlp.grpc_listen_address"
SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
# Requests that are held at once; beyond, exporters are told to come back.
MOST_AT_ONCE = 32
PATIENCE = 5.0
_DETAILS = "grpc-status-details-bin"
_OPTIONS = (
    ("grpc.so_reuseport", 0),  # two services at one port would each see half of the spans
    ("grpc.max_concurrent_streams", MOST_AT_ONCE),
    ("grpc.max_metadata_size", 16 * 2**10),
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
    refuse_strangers(listen, SETTING, asked=credentials.asked, allowed=settings.web.allow_unauthenticated)
    refuse_versions(credentials.config.tls, SETTING)
    return listen


class GrpcDoor:
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
        options = (*_OPTIONS, ("grpc.max_receive_message_length", settings.web.max_body))
        threads = ThreadPoolExecutor(2, thread_name_prefix="otlp-grpc")
        self._server = grpc.server(threads, options=options, maximum_concurrent_rpcs=MOST_AT_ONCE)
        export = grpc.unary_unary_rpc_method_handler(
            self._export, response_serializer=ExportTraceServiceResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        self.port = self._bound(listen, server_credentials(credentials))

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        log.info("receiving spans over gRPC at port %d", self.port)

    def stop(self) -> None:
        """Finish the requests under way, and end."""
        self._server.stop(PATIENCE).wait()

    def _bound(self, listen: Listen, tls: Any) -> int:
        where = str(listen) if listen.host else f"[::]:{listen.port}"
        try:
            return int(self._server.add_secure_port(where, tls) if tls else self._server.add_insecure_port(where))
        except RuntimeError:
            hint = f"free it, or choose another: {SETTING}"
            raise CollectError("cannot listen for gRPC", where=str(listen), hint=hint) from None

    def _export(self, body: bytes, context: Any) -> ExportTraceServiceResponse:
        host = host_of(context.peer())
        known = self._admitted(context, host)
        answer = self._intake.take(body, Form.PROTOBUF, host, authenticated=known)
        if answer.status is Status.MALFORMED:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, _line(answer.message))
        if answer.status is Status.THROTTLED:
            _send_away(context, grpc.StatusCode.UNAVAILABLE, _line(answer.message), answer.retry_after)
        return exported(answer)

    def _admitted(self, context: Any, host: str) -> bool:
        """Return whether the sender proved who it is; who should have and did not is sent away."""
        if self._authentication.credentials.config.certificates_required and not self._certificates_required:
            self._metrics.refused.labels("credentials").inc()
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "certificates are required since a reload: restart")
        header = dict(context.invocation_metadata()).get("authorization")
        answer = self._authentication.answer_here(header, host)
        if answer is Credential.TOO_MANY:
            self._metrics.refused.labels("attempts").inc()
            _send_away(context, grpc.StatusCode.RESOURCE_EXHAUSTED, TOO_MANY, round(SECONDS_PER_ATTEMPT))
        if answer in (Credential.MISSING, Credential.WRONG):
            self._metrics.refused.labels("credentials").inc()
            context.abort(grpc.StatusCode.UNAUTHENTICATED, f"credentials are {answer.value}")
        return answer is Credential.ADMITTED


def host_of(peer: str) -> str:
    """Return the address in what gRPC calls a peer, as in `ipv6:%5B::1%5D:4711`; empty where there is none."""
    family, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if family in ("ipv4", "ipv6") else ""


def _send_away(context: Any, code: grpc.StatusCode, line: str, seconds: int) -> None:
    """End a request with the details that make exporters wait and send again."""
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(seconds)
    status = RpcStatus(code=code.value[0], message=line)
    status.details.add().Pack(retry)
    context.set_trailing_metadata(((_DETAILS, status.SerializeToString()),))
    context.abort(code, line)


def _line(message: str) -> str:
    return " ".join(clean(message).split())
