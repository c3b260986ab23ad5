"""Posts one message to one address: bounded, with a deadline, without redirects; failures become one short reason."""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Mapping
from functools import cached_property
from urllib.parse import urlsplit

from urllib3 import exceptions as http_errors
from urllib3.response import BaseHTTPResponse

from diagnostics.errors import UsageError
from diagnostics.settings.addresses import REDACTED
from exporters.sources.access import SourceOptions
from exporters.sources.http import ReadFailure, explain, plain, timely_connections

_CHUNK = 16 * 2**10
# At DEBUG it logs the path of every request, which may be a secret.
logging.getLogger("urllib3.connectionpool").setLevel(logging.INFO)
# What a receiver says beyond is of no interest to anyone.
_MOST_READ = 64 * 2**10
# The message itself is refused: the same bytes would be again.
REFUSED = frozenset({400, 413, 415, 422})


class DeliveryFailure(Exception):
    """A message was not taken. Its text is one short reason without credentials.

    Attributes:
        refused: whether the same message would be refused again.
        retry_after: seconds that the receiver asks to be left alone; 0 when it does not ask.
        status: of the answer; 0 when there was none.

    """

    def __init__(self, reason: str, *, refused: bool = False, retry_after: float = 0.0, status: int = 0) -> None:
        super().__init__(reason)
        self.refused, self.retry_after, self.status = refused, retry_after, status


_FEWEST_OF_A_SECRET = 8
"""Characters of the shortest part of an address that is taken for a secret: `alerts` is none."""


class Poster:
    """Posts JSON to one URL with one set of options; for one thread.

    Each message has a connection of its own: they are rare, and what was kept open is often dead when it is needed.

    """

    def __init__(self, url: str, options: SourceOptions, setting: str = "") -> None:
        """Prepare; nothing is sent. `setting` is where the URL was written, for messages.

        Raises:
            UsageError: the URL is none of HTTP, or a file of the options cannot be used.

        """
        self._url, self._options = url, options
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            where = ": ".join(filter(None, (setting, self.shown if parts.hostname else "")))
            raise UsageError("is no address of HTTP", where=where, hint="write http://host:port or https://host")
        if parts.scheme == "https":
            _ = self._tls  # a certificate that cannot be used is told at once, not at each message

    @property
    def shown(self) -> str:
        """The scheme, host and port: whatever follows may be a secret."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Post one message; return the status of the answer.

        Raises:
            DeliveryFailure: it was not taken.

        """
        deadline = time.monotonic() + self._options.read_timeout
        try:
            status, retry_after, stated = self._post(body, headers or {}, deadline)
        except ReadFailure as failure:
            raise DeliveryFailure(failure.reason) from None
        except (http_errors.HTTPError, OSError) as error:
            reason = explain(error, self._options.read_timeout)[0]
            raise DeliveryFailure(plain(self._options.scrub(reason))) from None
        if not 200 <= status < 300:
            raise self._refusal(status, retry_after, stated)
        return status

    def _post(self, body: bytes, headers: Mapping[str, str], deadline: float) -> tuple[int, str, bytes]:
        tls = {"ssl_context": self._tls} if self._url.startswith("https:") else {}
        with timely_connections(self._options.read_timeout, **tls) as connections:
            response = connections.request(
                "POST",
                self._url,
                body=body,
                headers={**self._headers(), **headers},
                redirect=False,
                preload_content=False,
            )
            try:
                stated = _read(response, deadline, self._options.read_timeout)
            finally:
                response.close()
        return response.status, response.headers.get("Retry-After", ""), stated

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return self._options.tls()

    def _headers(self) -> dict[str, str]:
        fixed = {
            "User-Agent": "triton-diagnostics",
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "Connection": "close",
        }
        return fixed | self._options.request_headers()

    def _without_path(self, text: str) -> str:
        """Return an answer without the path and query of the address, which it may repeat: a hook's are a secret."""
        parts = urlsplit(self._url)
        for secret in (parts.query, *sorted(parts.path.split("/"), key=len, reverse=True)):
            text = text.replace(secret, REDACTED) if len(secret) >= _FEWEST_OF_A_SECRET else text
        return text

    def _refusal(self, status: int, retry_after: str, stated: bytes) -> DeliveryFailure:
        text = plain(self._without_path(self._options.scrub(stated.decode("utf-8", "replace"))))
        wait = float(retry_after[:9]) if retry_after.isdecimal() else 0.0
        return DeliveryFailure(
            f"HTTP {status}{': ' if text else ''}{text}",
            refused=status in REFUSED,
            retry_after=wait,
            status=status,
        )


def _read(response: BaseHTTPResponse, deadline: float, timeout: float) -> bytes:
    """Return the beginning of an answer; its rest is left unread."""
    stated = b""
    while len(stated) < _MOST_READ and (part := response.read1(_CHUNK)):
        stated += part
        if time.monotonic() > deadline:
            raise ReadFailure(f"no complete answer within {timeout:g} s")
    return stated
