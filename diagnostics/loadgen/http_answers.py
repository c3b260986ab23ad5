"""Answers over HTTP: bounded in size, without redirects; what fails is told in few words."""

from __future__ import annotations

import asyncio
import os

import aiohttp

from diagnostics.wire.json_body import json_value
from exporters.sources.access import MAX_BODY_BYTES
from exporters.sources.http import tls_reason

FAILURES = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, asyncio.TimeoutError, OSError)
"""What is raised where no answer came, or not all of one."""


def bounded(size: int) -> int:
    """Return the size of an answer, in bytes.

    Raises:
        ValueError: it is larger than any that is read.

    """
    if size > MAX_BODY_BYTES:
        raise ValueError(f"it is larger than {MAX_BODY_BYTES // 2**20} MiB")
    return size


async def whole_body(answer: aiohttp.ClientResponse) -> bytes:
    """Return an answer's body, unpacked.

    Raises:
        ValueError: it is too large.

    """
    body = bytearray()
    async for part in answer.content.iter_any():
        body += part
        bounded(len(body))
    return bytes(body)


async def refusal(answer: aiohttp.ClientResponse) -> str:
    """Return why an answer is no result, in the server's words."""
    if 300 <= answer.status < 400:
        return f"[{answer.status}] redirects to {answer.headers.get('Location', 'elsewhere')}, which is not followed"
    return f"[{answer.status}] {_said(await whole_body(answer)) or answer.reason or 'no reason given'}"


def _said(body: bytes) -> str:
    try:
        said = json_value(body)
    except ValueError:
        said = None
    if isinstance(said, dict) and "error" in said:
        return str(said["error"])
    text = body.decode("utf-8", "replace").strip()
    # A page of a proxy says less than its status.
    return "" if text.startswith("<") else text


def unanswered(error: Exception, timeout: float) -> str:
    """Return in words why no answer came, or not all of it, within `timeout` seconds."""
    match error:
        case TimeoutError():
            return f"no complete answer within {timeout:g} s"
        case aiohttp.ClientConnectorDNSError():
            return "host name not found"
        case aiohttp.ClientSSLError():
            return tls_reason(error)
        case aiohttp.ClientConnectorError():
            # asyncio puts words of its own in the place of the system's.
            return os.strerror(error.os_error.errno).lower() if error.os_error.errno else "cannot connect"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off"
        case _:
            return "the connection was closed before an answer"
