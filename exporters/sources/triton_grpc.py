"""Triton's gRPC endpoint, read where HTTP is closed. Answers become JSON bodies as HTTP would have given."""

from __future__ import annotations

import importlib
import json
import os
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from google.protobuf.message import DecodeError

from diagnostics.errors import UsageError
from diagnostics.wire.failed_reads import REFUSED
from diagnostics.wire.protobuf import delimited_fields
from diagnostics.wire.records import BodyKind
from diagnostics.wire.redact import scrub
from exporters.sources.access import MAX_BODY_BYTES, SourceOptions
from exporters.sources.address import Address
from exporters.sources.http import Obstacle, ReadFailure, plain

NOT_INSTALLED = "gRPC support is not installed: pip install 'triton-diagnostics[grpc]'"
_CALLS: dict[BodyKind, str] = {
    BodyKind.SERVER: "get_server_metadata",
    BodyKind.STATISTICS: "get_inference_statistics",
    BodyKind.INDEX: "get_model_repository_index",
    BodyKind.CONFIG: "get_model_config",
}
_REASONS: dict[str, tuple[str, Obstacle]] = {
    "UNAUTHENTICATED": ("credentials are missing or refused", Obstacle.DENIED),
    "PERMISSION_DENIED": ("not allowed", Obstacle.DENIED),
    "UNIMPLEMENTED": ("a gRPC server, but not Triton's", Obstacle.ANSWER),
    "RESOURCE_EXHAUSTED": (f"the answer is larger than {MAX_BODY_BYTES // 2**20} MiB", Obstacle.ANSWER),
}
_NO_CHARACTER = "\N{REPLACEMENT CHARACTER}"
# What the channel of gRPC's C core says, and what it means.
_UNAVAILABLE: dict[str, tuple[str, Obstacle]] = {
    "onnection refused": (REFUSED, Obstacle.CLOSED),
    "DNS resolution failed": ("host name not found", Obstacle.NO_HOST),
    "errors resolving": ("host name not found", Obstacle.NO_HOST),
    "CERTIFICATE_VERIFY_FAILED": ("the TLS certificate is not trusted; see --ca-file", Obstacle.PROTOCOL),
    "Hostname Verification Check failed": ("the TLS certificate is for another host name", Obstacle.PROTOCOL),
    "is not in peer certificate": ("the TLS certificate is for another host name", Obstacle.PROTOCOL),
    "WRONG_VERSION_NUMBER": ("the port does not speak TLS: use grpc://", Obstacle.PROTOCOL),
    "missing selected ALPN": ("the port speaks TLS, but not gRPC", Obstacle.PROTOCOL),
    "http1.x server": ("the port speaks HTTP, not gRPC", Obstacle.PROTOCOL),
}


# Answers that list models, and the field of each that holds the entries: field 1, in both.
_LISTS = {"ModelStatistics": "model_stats", "RepositoryIndex": "models"}
_ENTRIES = _NAME = 1


def listed(kind: Any, entries: str, body: bytes) -> Any:
    """Return a message of type `kind`. An entry that is no UTF-8 keeps nothing but its name, which is no valid one.

    Protobuf refuses the whole message for a byte of one entry; over HTTP only that entry is refused.

    Raises:
        DecodeError: it is damaged otherwise.

    """
    try:
        return kind.FromString(body)
    except DecodeError:
        made = kind()
    for number, begin, inner, end in delimited_fields(body, 0, len(body)):
        try:
            made.MergeFrom(kind.FromString(body[begin:end]))
        except DecodeError:
            if number != _ENTRIES:
                raise
            names = [body[at:to] for field, _, at, to in delimited_fields(body, inner, end) if field == _NAME]
            name = b"".join(names[-1:]).decode("utf-8", "replace")
            getattr(made, entries).add(name=name if _NO_CHARACTER in name else name + _NO_CHARACTER)
    return made


class GrpcApi:
    """The gRPC API of one server.

    Args:
        address: where it listens; `grpcs` or `https` for TLS.
        options: deadline, credentials and TLS files.

    Raises:
        ReadFailure: the extra `grpc` is not installed.
        UsageError: the options cannot be met over gRPC.

    """

    def __init__(self, address: Address, options: SourceOptions) -> None:
        self.url = f"{'grpcs' if address.secure else 'grpc'}://{address.netloc()}"
        self._options = options
        # Its C core would write lines of its own to standard error.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        try:
            module = importlib.import_module("tritonclient.grpc")
        except (ImportError, RuntimeError):  # the package without its extra raises RuntimeError
            raise ReadFailure(NOT_INSTALLED, Obstacle.ANSWER) from None
        self._client = module.InferenceServerClient(address.netloc(), **channel_of(address, options))
        for method, entries in _LISTS.items():
            answer = getattr(module.service_pb2, f"{method}Response")
            call = self._client._channel.unary_unary(
                f"/inference.GRPCInferenceService/{method}",
                request_serializer=getattr(module.service_pb2, f"{method}Request").SerializeToString,
                response_deserializer=partial(listed, answer, entries),
            )
            setattr(self._client._client_stub, method, call)

    def read(self, kind: BodyKind, name: str = "") -> bytes:
        """Return the answer of `kind` as JSON, in protobuf's mapping: 64-bit integers are strings.

        Raises:
            ReadFailure: there is none; the reason holds no credential and no control character.

        """
        call: Callable[..., Any] = getattr(self._client, _CALLS[kind])
        arguments = [name] if kind is BodyKind.CONFIG else []
        headers = {key.lower(): value for key, value in self._options.request_headers().items()}
        try:
            answer = call(*arguments, headers=headers, as_json=True, client_timeout=self._options.read_timeout)
        except Exception as error:  # noqa: BLE001 - its class is known only where the extra is installed
            raise self._failure(error) from None
        return self._options.scrub_bytes(json.dumps(answer, separators=(",", ":")).encode())

    def close(self) -> None:
        """Close the channel."""
        self._client.close()

    def _failure(self, error: Exception) -> ReadFailure:
        # The client wraps every RPC failure in one exception, whose status() names the gRPC code.
        status = getattr(error, "status", None)
        if status is None:
            raise error
        code = str(status()).rpartition(".")[2]
        message = str(getattr(error, "message", lambda: "")())
        if code == "DEADLINE_EXCEEDED":
            return ReadFailure(f"no answer within {self._options.read_timeout:g} s")
        if code == "UNAVAILABLE":
            return ReadFailure(*unavailable(message))
        if code in _REASONS:
            return ReadFailure(*_REASONS[code])
        stated = plain(scrub(self._options.scrub(message)))
        return ReadFailure(f"gRPC {code}{': ' if stated else ''}{stated}", Obstacle.ANSWER)


def unavailable(message: str) -> tuple[str, Obstacle]:
    """Return why a call found no server, from what the channel says, and how far it came."""
    for stated, reason in _UNAVAILABLE.items():
        if stated in message:
            return reason
    return "no gRPC server answers", Obstacle.PROTOCOL


def channel_of(address: Address, options: SourceOptions) -> dict[str, Any]:
    """Return how tritonclient's gRPC clients are to reach a server, as arguments of theirs.

    Raises:
        UsageError: the options cannot be met over gRPC.

    """
    # gRPC waits up to two minutes before it tries a lost server again; a restart shall be seen at once.
    backoff = [(f"grpc.{word}_reconnect_backoff_ms", 1000) for word in ("initial", "min", "max")]
    limits = [("grpc.max_receive_message_length", MAX_BODY_BYTES), *backoff]
    channel: dict[str, Any] = {"channel_args": limits}
    if not address.secure:
        return channel
    if options.insecure:
        raise UsageError("gRPC always checks certificates", where=str(address), hint="give --ca-file")
    authorities = options.ca_file or ssl.get_default_verify_paths().cafile
    return channel | {
        "ssl": True,
        "root_certificates": str(authorities) if authorities else None,
        "private_key": str(options.key_file or options.cert_file) if options.cert_file else None,
        "certificate_chain": str(options.cert_file) if options.cert_file else None,
    }
