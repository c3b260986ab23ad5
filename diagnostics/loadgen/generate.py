"""Triton's generate extension: JSON in, JSON or server-sent events out."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from urllib.parse import quote

import aiohttp

from diagnostics.loadgen.kserve_http import FAILURES, HttpTransport
from diagnostics.loadgen.tensors import input_json, read_json, whole
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Values, refused

_DATA = b"data:"


class GenerateTransport(HttpTransport):
    """A client of `POST /v2/models/<model>/generate` or `/generate_stream`; all else is KServe's HTTP."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        super().__init__(endpoint, headers, tls)
        self._base = f"{'https' if endpoint.secure else 'http'}://{endpoint.place}"
        self._streaming, self._url = endpoint.streaming, ""
        self._bodies: list[bytes] = []
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls or True, limit=endpoint.connections),
            timeout=aiohttp.ClientTimeout(total=endpoint.timeout),
            headers={**headers, "Content-Type": "application/json"},
        )

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:  # noqa: ARG002
        self._reads = reads
        self._url = f"{self._base}/v2/models/{quote(model, safe='')}/generate{'_stream' if self._streaming else ''}"
        self._bodies = [json.dumps(input_json(values)).encode() for values in requests]

    async def ask(self, index: int) -> Reply:
        try:
            async with self._session.post(self._url, data=self._bodies[index]) as answer:
                if answer.status != 200:
                    return refused(ValueError(_reason(await answer.read())), answer.status)
                return await self._events(answer) if self._streaming else self._body(await answer.read())
        except FAILURES as error:
            return refused(error, 0)
        except ValueError as error:
            return refused(error, 200)

    def _body(self, body: bytes) -> Reply:
        return whole([read_json(json.loads(body), self._reads)])

    async def _events(self, answer: aiohttp.ClientResponse) -> Reply:
        first: float | None = None
        parts = []
        async for line in answer.content:
            if not line.startswith(_DATA):
                continue
            first = first or time.perf_counter()
            event = json.loads(line[len(_DATA) :])
            if "error" in event:
                return refused(ValueError(str(event["error"])), 500)
            parts.append(read_json(event, self._reads))
        return whole(parts, first) if parts else Reply(ok=False, error="the stream ended without a response")

    async def close(self) -> None:
        await self._session.close()
        await super().close()


def _reason(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace") or "an empty answer"
