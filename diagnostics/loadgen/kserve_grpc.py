"""KServe's gRPC protocol with tritonclient, whole or streaming."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import grpc
import tritonclient.grpc as triton
from tritonclient.grpc.aio import InferenceServerClient
from tritonclient.utils import InferenceServerException

from diagnostics.loadgen.transport import (
    Endpoint,
    Reads,
    Reply,
    Values,
    input_tensors,
    of_model,
    read_result,
    refused,
    unusable,
    whole,
)
from exporters.sources.access import SourceOptions
from exporters.sources.address import parse_address
from exporters.sources.triton_grpc import channel_of, unavailable

# What gRPC's own channel says where nobody answers; other reasons are the server's, as a full queue.
_CHANNEL = re.compile("connect|socket|dns|resol|handshake|goaway|broken pipe|stream removed|peer", re.IGNORECASE)
FAILURES = (InferenceServerException, grpc.RpcError, asyncio.TimeoutError, OSError)


class GrpcTransport:
    """A client of `ModelInfer`, or of `ModelStreamInfer` with a stream for each request.

    Args:
        endpoint: where requests go.
        options: credentials and TLS files.

    Raises:
        UsageError: the options cannot be met over gRPC.

    """

    def __init__(self, endpoint: Endpoint, options: SourceOptions) -> None:
        self._headers = {name.lower(): value for name, value in options.request_headers().items()}
        self._endpoint, self._scrub, self._patience = endpoint, options.scrub, options.read_timeout
        self._client = InferenceServerClient(endpoint.name, **channel_of(parse_address(endpoint.url), options))
        self._model, self._reads = "", Reads()
        self._requests: list[list[Any]] = []

    def prepare(self, model: str, requests: Sequence[Values], kinds: Mapping[str, str], reads: Reads) -> None:
        self._model, self._reads = model, reads
        self._requests = [input_tensors(triton, values, kinds) for values in requests]

    async def ask(self, index: int) -> Reply:
        try:
            if self._endpoint.streaming:
                return await self._stream(self._requests[index])
            result = await self._client.infer(
                self._model, self._requests[index], headers=self._headers, client_timeout=self._endpoint.timeout
            )
            counts, text = self._read(result)
            return Reply(counts=counts, text=text)
        except FAILURES as error:
            return self._failed(error)
        except Exception as error:  # noqa: BLE001 - whatever a server sends, the load goes on
            return unusable(error)

    def _read(self, result: Any) -> tuple[tuple[int, ...], str]:
        of_model(self._model, result.get_response().model_name)
        return read_result(result, self._reads)

    async def _stream(self, inputs: list[Any]) -> Reply:
        async def one() -> AsyncIterator[dict[str, Any]]:
            yield {"model_name": self._model, "inputs": inputs}

        first: float | None = None
        parts = []
        responses = self._client.stream_infer(one(), stream_timeout=self._endpoint.timeout, headers=self._headers)
        async for result, error in responses:
            if error is not None:
                return self._failed(error)
            first = first or time.perf_counter()
            parts.append(self._read(result))
        return whole(parts, first) if parts else refused("the stream ended without a response", 500)

    async def alive(self) -> bool:
        try:
            await self._client.is_server_live(headers=self._headers, client_timeout=self._patience)
        except FAILURES as error:
            return self._failed(error).code != 0
        return True

    async def close(self) -> None:
        await self._client.close()

    def _failed(self, error: Exception) -> Reply:
        """Return the reply of a failed call: no answer, or a refusal in the server's own words."""
        status, stated = _status(error)
        match status:
            case "DEADLINE_EXCEEDED":
                return refused(f"no complete answer within {self._endpoint.timeout:g} s", 0)
            case "UNAVAILABLE" if _of_channel(stated):
                return refused(unavailable(stated)[0], 0)
            case "CANCELLED":
                return refused("the call was cancelled", 0)
            case _:
                return refused(self._scrub(f"[{status}] {stated}" if status else stated), 500)


def _of_channel(stated: str) -> bool:
    return bool(_CHANNEL.search(stated)) or not stated


def _status(error: Exception) -> tuple[str, str]:
    """Return a failure's gRPC code and message; no code where it is an error of the server without one."""
    if isinstance(error, InferenceServerException):
        return str(error.status() or "").rpartition(".")[2], str(error.message() or error)
    if isinstance(error, grpc.RpcError):
        return str(error.code()).rpartition(".")[2], str(error.details())
    return ("DEADLINE_EXCEEDED" if isinstance(error, TimeoutError) else "UNAVAILABLE"), str(error)
