"""KServe's HTTP protocol with tritonclient."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import tritonclient.http as triton
from tritonclient.http.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from diagnostics.loadgen.tensors import input_tensors, read_result
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Values, refused

FAILURES = (InferenceServerException, aiohttp.ClientError, asyncio.TimeoutError, OSError)


class HttpTransport:
    """A client of `POST /v2/models/<model>/infer`."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str], tls: ssl.SSLContext | None) -> None:
        self._headers = dict(headers)
        self._client = InferenceServerClient(
            endpoint.place,
            conn_limit=endpoint.connections,
            conn_timeout=endpoint.timeout,
            ssl=endpoint.secure,
            ssl_context=tls,
        )
        self._model, self._reads = "", Reads()
        self._requests: list[list[Any]] = []

    async def server_models(self) -> list[str]:
        index = await self._client.get_model_repository_index(headers=self._headers)
        return sorted({one["name"] for one in index if one.get("state", "READY") == "READY"})

    async def config(self, model: str) -> dict[str, Any]:
        config: dict[str, Any] = await self._client.get_model_config(model, headers=self._headers)
        return config

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        self._model, self._reads = model, reads
        self._requests = [input_tensors(triton, values, kinds) for values in requests]

    async def ask(self, index: int) -> Reply:
        try:
            result = await self._client.infer(self._model, self._requests[index], headers=dict(self._headers))
        except FAILURES as error:
            return refused(error, http_status(error))
        counts, text = read_result(result, self._reads)
        return Reply(counts=counts, text=text)

    async def ready(self) -> bool:
        try:
            return bool(await self._client.is_server_ready(headers=self._headers))
        except FAILURES:
            return False

    async def close(self) -> None:
        await self._client.close()


def http_status(error: Exception) -> int:
    """Return the status that a failure carries; 0 where no answer came."""
    status = error.status() if isinstance(error, InferenceServerException) else None
    return int(status) if status and status.isdigit() else 0
