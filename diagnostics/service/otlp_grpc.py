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

from diagnostics.errors import CollectError
from diagnostics.render.clean import clean
from diagnostics.service.http.listening import Listen, parse_listen, refuse_strangers
from diagnostics.service.otlp_intake import Answer, Form, OtlpIntake, Status, exported
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
)


def grpc_address(settings: Settings) -> Listen:
    """Return where spans are received over gRPC.

    Raises:
        UsageError: the setting is no address, or other machines reach it although senders are not asked who they are.

    """
    listen = parse_listen(settings.otlp.grpc_listen_address, SETTING)
    refuse_strangers(listen, SETTING, asked=False, allowed=settings.web.allow_unauthenticated)
    return listen


class GrpcDoor:
    """A part of the daemon. Binds its address when made.

    Attributes:
        port: where it listens, also when the settings leave the choice to the system.

    """

    def __init__(self, settings: Settings, intake: OtlpIntake) -> None:
        """Bind; nothing is answered before `start`.

        Raises:
            UsageError: as `grpc_address`.
            CollectError: the address cannot be bound.

        """
        self._intake = intake
        listen = grpc_address(settings)
        options = (*_OPTIONS, ("grpc.max_receive_message_length", settings.web.max_body))
        threads = ThreadPoolExecutor(2, thread_name_prefix="otlp-grpc")
        self._server = grpc.server(threads, options=options, maximum_concurrent_rpcs=MOST_AT_ONCE)
        export = grpc.unary_unary_rpc_method_handler(
            self._export, response_serializer=ExportTraceServiceResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Export": export}),))
        self.port = self._bound(listen)

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        log.info("receiving spans over gRPC at port %d", self.port)

    def stop(self) -> None:
        """Finish the requests under way, and end."""
        self._server.stop(PATIENCE).wait()

    def _bound(self, listen: Listen) -> int:
        where = str(listen) if listen.host else f"[::]:{listen.port}"
        try:
            return int(self._server.add_insecure_port(where))
        except RuntimeError:
            hint = f"free it, or choose another: {SETTING}"
            raise CollectError("cannot listen for gRPC", where=str(listen), hint=hint) from None

    def _export(self, body: bytes, context: Any) -> ExportTraceServiceResponse:
        answer = self._intake.take(body, Form.PROTOBUF, host_of(context.peer()), authenticated=False)
        if answer.status is Status.MALFORMED:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, _line(answer))
        if answer.status is Status.THROTTLED:
            context.set_trailing_metadata(((_DETAILS, _come_back(answer)),))
            context.abort(grpc.StatusCode.UNAVAILABLE, _line(answer))
        return exported(answer)


def host_of(peer: str) -> str:
    """Return the address in what gRPC calls a peer, as in `ipv6:%5B::1%5D:4711`; empty where there is none."""
    family, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]") if family in ("ipv4", "ipv6") else ""


def _come_back(answer: Answer) -> bytes:
    """Return the details that make exporters wait and send again."""
    retry = RetryInfo()
    retry.retry_delay.FromSeconds(answer.retry_after)
    status = RpcStatus(code=grpc.StatusCode.UNAVAILABLE.value[0], message=_line(answer))
    status.details.add().Pack(retry)
    return bytes(status.SerializeToString())


def _line(answer: Answer) -> str:
    return " ".join(clean(answer.message).split())
