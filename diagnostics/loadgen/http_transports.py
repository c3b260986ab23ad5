"""Load over HTTP: KServe's protocol and Triton's generate extension; answers are bounded, without redirects."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import quote

import aiohttp
import tritonclient.http as triton

from diagnostics.loadgen.transport import (
    Endpoint,
    Reads,
    Reply,
    Values,
    input_json,
    input_tensors,
    of_model,
    read_json,
    read_result,
    refused,
    unusable,
    whole,
)
from diagnostics.wire.json_body import json_value
from exporters.sources.access import MAX_BODY_BYTES, SourceOptions
from exporters.sources.http import redirected, tls_reason

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
        return f"[{answer.status}] redirects to {redirected(answer.headers)}, which is not followed"
    return f"[{answer.status}] {_stated(await whole_body(answer)) or answer.reason or 'no reason given'}"


def _stated(body: bytes) -> str:
    try:
        stated = json_value(body)
    except ValueError:
        stated = None
    if isinstance(stated, dict) and "error" in stated:
        return error_text(stated["error"])
    if isinstance(stated, dict) and isinstance(stated.get("message"), str):
        return str(stated["message"])
    text = body.decode("utf-8", "replace").strip()
    # A page of a proxy says less than its status.
    return "" if text.startswith("<") else text


def error_text(error: object) -> str:
    """Return why a request failed: Triton says it in a text, OpenAI's API in the `message` of an object."""
    return str(error.get("message", error)) if isinstance(error, dict) else str(error)


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


_HEADER_LENGTH = "Inference-Header-Content-Length"
Prepared = tuple[bytes, Mapping[str, str]]
"""A request's body and its headers."""
JSON_HEADERS = {"Content-Type": "application/json"}


class HttpTransport:
    """A client of `POST /v2/models/<model>/infer`; to be made in a running event loop.

    Args:
        endpoint: where requests go.
        options: credentials and TLS files.

    Raises:
        UsageError: a certificate or key file cannot be used.

    """

    verb = "infer"

    def __init__(self, endpoint: Endpoint, options: SourceOptions) -> None:
        self._endpoint, self._scrub, self._patience = endpoint, options.scrub, options.read_timeout
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=options.tls() if endpoint.secure else True, limit=endpoint.connections),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout),
            headers=options.request_headers(),
            # Each request stands for a user of its own, which no gateway shall know again.
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._model, self._url, self._reads = "", "", Reads()
        self._requests: list[Prepared] = []

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        self._model, self._reads = model, reads
        self._url = f"{self._endpoint.url}/v2/models/{quote(model, safe='')}/{self.verb}"
        self._requests = [self._prepared(values, kinds) for values in requests]

    def _prepared(self, values: Values, kinds: Mapping[str, str]) -> Prepared:
        body, length = triton.InferenceServerClient.generate_request_body(input_tensors(triton, values, kinds))
        return bytes(body), {} if length is None else {_HEADER_LENGTH: str(length)}

    async def ask(self, index: int) -> Reply:
        body, headers = self._requests[index]
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                if answer.status != 200:
                    return refused(self._scrub(await refusal(answer)), answer.status)
                return await self._reply(answer)
        except FAILURES as error:
            return refused(self._scrub(unanswered(error, self._endpoint.timeout)), 0)
        except Exception as error:  # noqa: BLE001 - whatever a server sends, the load goes on
            return unusable(error)

    async def _reply(self, answer: aiohttp.ClientResponse) -> Reply:
        body, length = await whole_body(answer), answer.headers.get(_HEADER_LENGTH)
        result = triton.InferResult.from_response_body(body, header_length=int(length) if length else None)
        of_model(self._model, result.get_response().get("model_name"))
        counts, text = read_result(result, self._reads)
        return Reply(counts=counts, text=text)

    async def alive(self) -> bool:
        limit = aiohttp.ClientTimeout(total=self._patience)
        try:
            async with self._session.get(f"{self._endpoint.url}/v2/health/live", timeout=limit, allow_redirects=False):
                return True
        except (aiohttp.ClientError, OSError):
            return False

    async def close(self) -> None:
        await self._session.close()


_EVENT_DATA = b"data:"


async def event_data(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the data of each line of a stream that holds some (server-sent events).

    Raises:
        ValueError: the stream is too large.

    """
    size = 0
    async for line in answer.content:
        size = bounded(size + len(line))
        if line.startswith(_EVENT_DATA):
            yield line.removeprefix(_EVENT_DATA).strip()


_Part = tuple[tuple[int, ...], str]


class GenerateTransport(HttpTransport):
    """A client of `POST /v2/models/<model>/generate` or `/generate_stream`."""

    def __init__(self, endpoint: Endpoint, options: SourceOptions) -> None:
        super().__init__(endpoint, options)
        self.verb = "generate_stream" if endpoint.streaming else "generate"

    def _prepared(self, values: Values, kinds: Mapping[str, str]) -> Prepared:  # noqa: ARG002
        return json.dumps(input_json(values)).encode(), JSON_HEADERS

    async def _reply(self, answer: aiohttp.ClientResponse) -> Reply:
        if self._endpoint.streaming:
            return await self._events(answer)
        return whole([self._part(await whole_body(answer))])

    async def _events(self, answer: aiohttp.ClientResponse) -> Reply:
        first: float | None = None
        parts = []
        async for data in event_data(answer):
            first = first or time.perf_counter()
            event = json_value(data)
            if isinstance(event, dict) and "error" in event:
                return refused(self._scrub(error_text(event["error"])), 500)
            parts.append(self._of(event))
        return whole(parts, first) if parts else refused("the stream ended without a response", 200)

    def _part(self, body: bytes) -> _Part:
        return self._of(json_value(body))

    def _of(self, event: object) -> _Part:
        if not isinstance(event, dict):
            raise TypeError("it is no JSON object")
        of_model(self._model, event.get("model_name"))
        return read_json(event, self._reads)
