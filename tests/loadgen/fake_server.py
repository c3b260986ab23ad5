"""A server that speaks enough of Triton's HTTP to take load: answers are known, and it can die."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

TOKENS = 4


def config(**changed: Any) -> dict[str, Any]:
    """A generating model's configuration, as TensorRT-LLM's model repository has it."""

    def tensor(name: str, kind: str, *, optional: bool = False) -> dict[str, Any]:
        return {"name": name, "data_type": f"TYPE_{kind}", "dims": ["1"], "optional": optional}

    optional = (("min_tokens", "INT32"), ("end_id", "INT32"), ("top_k", "INT32"), ("return_num_output_tokens", "BOOL"))
    return {
        "name": "llm",
        "max_batch_size": 8,
        "input": [
            tensor("text_input", "STRING"),
            tensor("max_tokens", "INT32"),
            *(tensor(name, kind, optional=True) for name, kind in optional),
            tensor("beam_width", "INT32", optional=True),
        ],
        "output": [tensor("text_output", "STRING"), tensor("num_output_tokens", "UINT32")],
    } | changed


@dataclass
class FakeTriton:
    """What it is, and what came.

    Attributes:
        config: of its one model.
        lives_for: requests after which it is gone; None for ever.
        refusal: what it answers to each request instead of a result; empty for none.
        spoilt: bodies that it answers with instead of results, one request each.
        state: of its model in the repository index.

    """

    config: dict[str, Any] = field(default_factory=config)
    lives_for: int | None = None
    refusal: str = ""
    spoilt: list[bytes] = field(default_factory=list)
    state: str = "READY"
    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @contextmanager
    def running(self) -> Iterator[FakeTriton]:
        self._loop, self._up, self._over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
        thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),))
        thread.start()
        assert self._up.wait(10)
        try:
            yield self
        finally:
            self._loop.call_soon_threadsafe(self._over.set)
            thread.join()
            self._loop.close()

    async def _serve(self) -> None:
        app = web.Application()
        app.add_routes(self._routes())
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await self._site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        self._up.set()
        await self._over.wait()
        await self._runner.cleanup()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v2/health/live", self._nothing),
            web.post("/v2/repository/index", self._index),
            web.get("/v2/models/llm/config", self._config),
            web.post("/v2/models/llm/{verb}", self._answer),
            web.post("/v2/models/moved/{verb}", self._moved),
        ]

    async def _nothing(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _index(self, _: web.Request) -> web.Response:
        return web.json_response([{"name": "llm", "version": "1", "state": self.state, "reason": ""}])

    async def _config(self, _: web.Request) -> web.Response:
        return web.json_response(self.config)

    async def _moved(self, request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect(f"/v2/models/llm/{request.match_info['verb']}")

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.headers.append(dict(request.headers))
        if self.lives_for is not None and len(self.bodies) > self.lives_for:
            await self._site.stop()
            assert request.transport is not None
            request.transport.abort()
        if self.refusal:
            return web.json_response({"error": self.refusal}, status=400)
        if self.spoilt:
            return web.Response(body=self.spoilt.pop(0))
        match request.match_info["verb"]:
            case "infer":
                output = {"name": "num_output_tokens", "datatype": "UINT32", "shape": [1, 1], "data": [TOKENS]}
                return web.json_response({"model_name": "llm", "model_version": "1", "outputs": [output]})
            case "generate":
                return web.json_response({"text_output": "a b", "num_output_tokens": TOKENS})
            case _:
                return await self._stream(request)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(TOKENS):
            event = {"text_output": "a ", "num_output_tokens": 1}
            await answer.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        return answer
