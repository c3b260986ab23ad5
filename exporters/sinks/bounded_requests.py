"""What libraries that speak through requests read of an answer: OpenTelemetry's exporters and Apprise.

They read it whole, however long it is, and count their timeout again for each byte.
"""

from __future__ import annotations

import io
import time
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse, HTTPResponse

from exporters.sources.http import TIMELY_POOLS

LARGEST = 4 * 2**20
"""Bytes of an answer; that of a chat service may list its rooms (ours)."""
PATIENCE = 30.0
"""Seconds for the whole of a request whose sender names no single number (ours)."""
_CHUNK = 64 * 2**10


class BoundedAdapter(HTTPAdapter):
    """Ends an answer that is larger than `LARGEST`, or not there in time as a whole."""

    def init_poolmanager(self, *given: Any, **more: Any) -> None:
        """Make connections whose answers have one deadline, counted from when they are opened."""
        super().init_poolmanager(*given, **more)
        self.poolmanager.pool_classes_by_scheme = TIMELY_POOLS

    def send(self, request: requests.PreparedRequest, *given: Any, **more: Any) -> requests.Response:
        """Send a request on a connection of its own, and read the answer."""
        timeout = more.get("timeout")
        seconds = timeout if isinstance(timeout, int | float) else PATIENCE
        until = time.monotonic() + seconds
        request.headers["Connection"] = "close"
        response = super().send(request, *given, **{**more, "stream": True, "timeout": seconds})
        answer = response.raw
        try:
            response.raw = _whole(answer, _read(answer, until))
        finally:
            answer.close()
        return response


def _read(answer: BaseHTTPResponse, until: float) -> bytes:
    body = bytearray()
    try:
        for part in answer.stream(_CHUNK, decode_content=True):
            body += part
            if len(body) > LARGEST or time.monotonic() > until:
                raise requests.exceptions.ReadTimeout("the answer does not end")
    except (HTTPError, OSError) as error:
        raise requests.exceptions.ReadTimeout(type(error).__name__) from error
    return bytes(body)


def _whole(answer: BaseHTTPResponse, body: bytes) -> HTTPResponse:
    """Return an answer that was read, without the headers that said how its body was sent.

    Libraries ask the raw answer for its version and its headers too.
    """
    headers = answer.headers.copy()
    for name in ("Content-Encoding", "Content-Length", "Transfer-Encoding"):
        headers.discard(name)
    return HTTPResponse(
        body=io.BytesIO(body),
        headers=headers,
        status=answer.status,
        version=answer.version,
        reason=answer.reason,
        preload_content=False,
        request_url=answer.geturl(),
    )


def bound_answers() -> None:
    """Have every session that is made from now on, by whatever library of this process, read bounded answers."""
    setattr(requests.sessions, "HTTPAdapter", BoundedAdapter)  # noqa: B010 - its types do not export the name
