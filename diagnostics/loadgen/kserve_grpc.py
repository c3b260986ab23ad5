"""KServe's gRPC protocol with tritonclient, whole or streaming."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import tritonclient.grpc as triton
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from diagnostics.loadgen.tensors import input_tensors, read_result, whole
from diagnostics.loadgen.transport import Endpoint, Reads, Reply, Values, refused

FAILURES = (InferenceServerException, grpc.RpcError, asyncio.TimeoutError, OSError)
# No answer came: the rest of gRPC's codes are the server's own words.
_UNANSWERED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


class GrpcTransport:
    """A client of `ModelInfer`, or of `ModelStreamInfer` with a stream for each request."""

    def __init__(self, endpoint: Endpoint, headers: Mapping[str, str], pem: Mapping[str, Path | None]) -> None:
        self._headers = {name.lower(): value for name, value in headers.items()}
        self._streaming, self._timeout = endpoint.streaming, endpoint.timeout
        files = {name: str(path) if path else None for name, path in pem.items()}
        self._client = InferenceServerClient(endpoint.place, ssl=endpoint.secure, **files)
        self._model, self._reads = "", Reads()
        self._requests: list[list[Any]] = []

    async def server_models(self) -> list[str]:
        index = await self._client.get_model_repository_index(headers=self._headers, as_json=True)
        return sorted({one["name"] for one in index.get("models", ()) if one.get("state", "READY") == "READY"})

    async def config(self, model: str) -> dict[str, Any]:
        answer = await self._client.get_model_config(model, headers=self._headers, as_json=True)
        config: dict[str, Any] = answer["config"]
        return config

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        self._model, self._reads = model, reads
        self._requests = [input_tensors(triton, values, kinds) for values in requests]

    async def ask(self, index: int) -> Reply:
        try:
            if self._streaming:
                return await self._stream(self._requests[index])
            result = await self._client.infer(
                self._model, self._requests[index], headers=self._headers, client_timeout=self._timeout
            )
        except FAILURES as error:
            return refused(error, _code(error))
        counts, text = read_result(result, self._reads)
        return Reply(counts=counts, text=text)

    async def _stream(self, inputs: list[Any]) -> Reply:
        async def one() -> AsyncIterator[dict[str, Any]]:
            yield {"model_name": self._model, "inputs": inputs}

        first: float | None = None
        parts = []
        responses = self._client.stream_infer(one(), stream_timeout=self._timeout, headers=self._headers)
        async for result, error in responses:
            if error is not None:
                return refused(error, _code(error))
            first = first or time.perf_counter()
            parts.append(read_result(result, self._reads))
        return whole(parts, first) if parts else Reply(ok=False, code=500, error="the stream ended without a response")

    async def ready(self) -> bool:
        try:
            return bool(await self._client.is_server_ready(headers=self._headers, client_timeout=self._timeout))
        except FAILURES:
            return False

    async def close(self) -> None:
        await self._client.close()


def _code(error: Exception) -> int:
    status = str(error.status() if isinstance(error, InferenceServerException) else error)
    return 0 if any(word in status for word in _UNANSWERED) else 500
