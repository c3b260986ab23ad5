"""Triton's generate extension: JSON in, JSON or server-sent events out."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import aiohttp

from diagnostics.loadgen.http_answers import bounded, whole_body
from diagnostics.loadgen.kserve_http import HttpTransport
from diagnostics.loadgen.tensors import input_json, of_model, read_json, whole
from diagnostics.loadgen.transport import Endpoint, Reply, Values, refused
from diagnostics.wire.json_body import json_value
from exporters.sources.access import SourceOptions

_DATA = b"data:"
_JSON = {"Content-Type": "application/json"}
_Part = tuple[tuple[int, ...], str]


class GenerateTransport(HttpTransport):
    """A client of `POST /v2/models/<model>/generate` or `/generate_stream`."""

    def __init__(self, endpoint: Endpoint, options: SourceOptions) -> None:
        super().__init__(endpoint, options)
        self.verb = "generate_stream" if endpoint.streaming else "generate"

    def _prepared(self, values: Values, kinds: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]]:  # noqa: ARG002
        return json.dumps(input_json(values)).encode(), _JSON

    async def _reply(self, answer: aiohttp.ClientResponse) -> Reply:
        if self._endpoint.streaming:
            return await self._events(answer)
        return whole([self._part(await whole_body(answer))])

    async def _events(self, answer: aiohttp.ClientResponse) -> Reply:
        first: float | None = None
        parts, size = [], 0
        async for line in answer.content:
            size = bounded(size + len(line))
            if not line.startswith(_DATA):
                continue
            first = first or time.perf_counter()
            event = json_value(line[len(_DATA) :])
            if isinstance(event, dict) and "error" in event:
                return refused(self._scrub(str(event["error"])), 500)
            parts.append(self._of(event))
        return whole(parts, first) if parts else refused("the stream ended without a response", 200)

    def _part(self, body: bytes) -> _Part:
        return self._of(json_value(body))

    def _of(self, event: object) -> _Part:
        if not isinstance(event, dict):
            raise TypeError("it is no JSON object")
        of_model(self._model, event.get("model_name"))
        return read_json(event, self._reads)
