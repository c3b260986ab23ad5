"""Why a read failed: one short reason for people, and what a caller may decide by."""

from __future__ import annotations

import io
import re
import socket
import ssl
import time
from collections.abc import Mapping
from enum import Enum, auto
from functools import cached_property
from typing import Any, NamedTuple

import urllib3
from urllib3 import exceptions as http_errors
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.response import BaseHTTPResponse

from diagnostics.settings.addresses import without_credentials
from diagnostics.wire.failed_reads import REFUSED
from diagnostics.wire.json_body import json_value
from diagnostics.wire.redact import scrub
from exporters.sources.access import SourceOptions


class Obstacle(Enum):
    """How far a failed read came."""

    NO_HOST = auto()  # the name is unknown or the host cannot be reached: other ports will fail the same
    CLOSED = auto()  # nothing listens on the port
    LATE = auto()  # no answer, or not all of it, in time
    PROTOCOL = auto()  # something listens, but speaks something else
    DENIED = auto()  # it wants other credentials
    ANSWER = auto()  # it answered, but not with what was asked for


class ReadFailure(Exception):
    """One read failed. Its text is one short reason without credentials; `status` is HTTP's, None without an answer."""

    def __init__(self, reason: str, obstacle: Obstacle = Obstacle.LATE, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason, self.obstacle, self.status = reason, obstacle, status


def plain(text: str, limit: int = 200) -> str:
    """Return the first line of `text`, cut, control characters shown as `?`: servers choose these bytes."""
    line = next((line for line in text.splitlines() if line.strip()), "").strip()
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


class _TimelySocket:
    """A socket whose file raises TimeoutError once the time is up; it is the socket itself in all else."""

    def __init__(self, inner: socket.socket, until: float) -> None:
        self._inner, self._until = inner, until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        return io.BufferedReader(_TimelyFile(self._inner, self._until))


class _TimelyFile(io.RawIOBase):
    def __init__(self, inner: socket.socket, until: float) -> None:
        self._inner, self._until = inner, until
        self._file = inner.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._inner.settimeout(left)
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Timely:
    """Counts the connect timeout from the connection's making, for everything that is read from it."""

    timeout: float | None
    sock: Any

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._made = time.monotonic()

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]  # of the connection that this is mixed into
        if self.timeout is not None:
            self.sock = _TimelySocket(self.sock, self._made + self.timeout)


class _PlainConnection(_Timely, HTTPConnection): ...


class _SecureConnection(_Timely, HTTPSConnection): ...


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


TIMELY_POOLS: dict[str, type[HTTPConnectionPool]] = {"http": _PlainPool, "https": _SecurePool}


def timely_connections(timeout: float, **tls: Any) -> urllib3.PoolManager:
    """Return a manager whose answers end after `timeout` seconds as a whole, however slowly their bytes arrive.

    urllib3 counts a timeout again for each part: headers that trickle in, or interim answers, would never end. `tls`
    are its arguments of TLS.
    """
    manager = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=timeout, read=timeout), **tls)
    manager.pool_classes_by_scheme = TIMELY_POOLS
    return manager


_CHUNK = 64 * 2**10
_USER_AGENT = "triton-diagnostics"
_JSON = "application/json"


class HttpAnswer(NamedTuple):
    """A body, unpacked, and the headers that came with it; case does not matter in their names."""

    body: bytes
    headers: Mapping[str, str]


class HttpReader:
    """Reads URLs with one set of options; it may be used from several threads.

    Each read has a connection of its own: one kept open would hold up a Triton that is shutting down, and would fail
    once after the server had dropped it.

    """

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        if options.insecure:
            urllib3.disable_warnings(http_errors.InsecureRequestWarning)

    def read(
        self, method: str, url: str, body: bytes | None = None, accept: str = "*/*", content_type: str = _JSON
    ) -> bytes:
        """Return the body of a 200 answer. `content_type` is of `body`, where there is one.

        Raises:
            ReadFailure: there is none; the reason holds no credential and no control character.
            UsageError: a certificate file of the options cannot be used.

        """
        return self.answer(method, url, body, accept, content_type).body

    def answer(
        self, method: str, url: str, body: bytes | None = None, accept: str = "*/*", content_type: str = _JSON
    ) -> HttpAnswer:
        """Return a 200 answer with its headers; raises as `read` does."""
        deadline = time.monotonic() + self.options.read_timeout
        try:
            headers = self._headers(accept, content_type if body is not None else None)
            return self._read(method, url, body, headers, deadline)
        except (http_errors.HTTPError, OSError) as error:
            raise self._failure(error) from None

    def _read(self, method: str, url: str, body: bytes | None, headers: dict[str, str], deadline: float) -> HttpAnswer:
        with self._connections(secure=url.startswith("https:")) as connections:
            response = connections.request(
                method,
                url,
                body=body,
                headers=headers,
                redirect=False,
                preload_content=False,
            )
            try:
                data = _drain(response, deadline, self.options)
            except http_errors.ReadTimeoutError:
                raise _incomplete(self.options.read_timeout) from None
            finally:
                response.close()
        if response.status != 200:
            raise self._refusal(response.status, response.headers, data)
        return HttpAnswer(self.options.scrub_bytes(data), response.headers)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        # Reading the system's authorities takes some 20 ms, which plain HTTP need not spend.
        return self.options.tls()

    def _connections(self, *, secure: bool) -> urllib3.PoolManager:
        options = self.options
        # Not for plain HTTP: its connections in urllib3 before 2.8 refuse arguments of TLS.
        tls: dict[str, Any] = {
            "ssl_context": self._tls,
            "assert_hostname": False if options.insecure else None,
            "cert_reqs": "CERT_NONE" if options.insecure else "CERT_REQUIRED",
        }
        return timely_connections(options.read_timeout, **(tls if secure else {}))

    def _headers(self, accept: str, content_type: str | None) -> dict[str, str]:
        headers = {
            "User-Agent": _USER_AGENT,
            "Accept": accept,
            "Accept-Encoding": "gzip",
            "Connection": "close",
        }
        if content_type is not None:
            headers["Content-Type"] = content_type
        return headers | self.options.request_headers()

    def _refusal(self, status: int, headers: Mapping[str, str], body: bytes) -> ReadFailure:
        if 300 <= status < 400:
            target = plain(self.options.scrub(redirected(headers)))
            return ReadFailure(f"HTTP {status} redirect to {target}, not followed", Obstacle.ANSWER, status)
        if status in (401, 403):
            hint = "not allowed" if self.options.has_credentials else "credentials are missing"
            return ReadFailure(f"HTTP {status}, {hint}", Obstacle.DENIED, status)
        stated = plain(scrub(self.options.scrub(_error_text(body))))
        return ReadFailure(f"HTTP {status}{': ' if stated else ''}{stated}", Obstacle.ANSWER, status)

    def _failure(self, error: Exception) -> ReadFailure:
        reason, obstacle = explain(error, self.options.read_timeout)
        return ReadFailure(plain(self.options.scrub(reason)), obstacle)


def redirected(headers: Mapping[str, str]) -> str:
    """Return where an answer redirects to, without a user and what follows the path: each may be a token."""
    return without_credentials(re.split("[?#]", headers.get("Location", "elsewhere"))[0])


def _drain(response: BaseHTTPResponse, deadline: float, options: SourceOptions) -> bytes:
    parts: list[bytes] = []
    promised = response.headers.get("Content-Length", "")
    size, most = 0, options.max_body
    if promised.isascii() and promised.isdigit() and int(promised[:20]) > most:
        raise _too_large(most)
    while part := response.read1(_CHUNK, decode_content=True):
        size += len(part)
        if size > most:
            parts.clear()  # whoever keeps the failure would keep them
            raise _too_large(most)
        if time.monotonic() > deadline:
            raise _incomplete(options.read_timeout)
        parts.append(part)
    return b"".join(parts)


def _too_large(most: int) -> ReadFailure:
    return ReadFailure(f"the answer is larger than {most / 2**20:g} MiB", Obstacle.ANSWER)


def _incomplete(timeout: float) -> ReadFailure:
    return ReadFailure(f"no complete answer within {timeout:g} s")


def _error_text(body: bytes) -> str:
    # Triton answers an error as {"error": "…"}, OpenAI's API as {"error": {"message": "…"}} (vLLM before 0.10 as
    # {"object": "error", "message": "…"}), a running `diag serve` as {"detail": "…"} (RFC 9457). Anything else is a
    # page of a proxy, which says nothing.
    try:
        stated = json_value(body)
    except ValueError:
        return ""
    if not isinstance(stated, dict):
        return ""
    text = stated.get("error") or stated.get("detail") or (stated.get("object") == "error" and stated.get("message"))
    if isinstance(text, dict):
        text = text.get("message")
    return text if isinstance(text, str) else ""


def explain(error: Exception, timeout: float) -> tuple[str, Obstacle]:
    """Return why `error` was raised, in words, and how far the read came."""
    if isinstance(error, http_errors.NameResolutionError | socket.gaierror):
        return "host name not found", Obstacle.NO_HOST
    if isinstance(error, http_errors.NewConnectionError):
        return _connection(error.__cause__)
    if isinstance(error, http_errors.TimeoutError | TimeoutError):
        return f"no answer within {timeout:g} s", Obstacle.LATE
    if isinstance(error, http_errors.SSLError | ssl.SSLError):
        return tls_reason(error), Obstacle.PROTOCOL
    if isinstance(error, http_errors.DecodeError):
        return "the compressed answer is damaged", Obstacle.ANSWER
    if isinstance(error, http_errors.ProtocolError):
        return _protocol(error), Obstacle.PROTOCOL
    return f"{type(error).__name__}: {error}", Obstacle.PROTOCOL


def _connection(cause: BaseException | None) -> tuple[str, Obstacle]:
    if isinstance(cause, ConnectionRefusedError):
        return REFUSED, Obstacle.CLOSED
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror.lower(), Obstacle.NO_HOST
    return "cannot connect", Obstacle.CLOSED


def tls_reason(error: Exception) -> str:
    """Return why TLS failed, in words."""
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        why = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0]
        return f"the TLS certificate is not trusted ({why or 'unknown reason'}); see --ca-file and --insecure"
    if "hostname" in text and "match" in text:
        return "the TLS certificate is for another host name"
    if "WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text or "PACKET_LENGTH_TOO_LONG" in text:
        return "the port does not speak TLS: use http://"
    if "EOF" in text:
        return "the port ended the TLS handshake: if it speaks plain HTTP, use http://"
    return f"TLS failed ({text.rpartition('] ')[2].partition(' (_ssl')[0]})"


def _protocol(error: http_errors.ProtocolError) -> str:
    cause = next((arg for arg in error.args if isinstance(arg, Exception)), error)
    if "IncompleteRead" in f"{type(cause).__name__} {cause}":
        return "the answer was cut off"
    if isinstance(cause, ConnectionResetError | BrokenPipeError):
        return "the connection was closed before an answer"
    if type(cause).__name__ == "RemoteDisconnected":
        return "the connection was closed without an answer"
    return "the port does not speak plain HTTP"
