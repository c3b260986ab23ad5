"""The service's answers as tools for agents: the Model Context Protocol over HTTP, behind the same listener as the API.

A tool asks the API's own routes within the process: an agent learns what a reader of the API does, within its bounds.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Annotated, NamedTuple
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from httpx2 import ASGITransport, AsyncClient
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute

from diagnostics.checks.catalogue import catalogue
from diagnostics.render.agents import Check, agent_server, bounded
from diagnostics.service.http.api import PREFIX
from diagnostics.service.http.problems import JsonAnswer, RefuseNul, answer_with_problems
from diagnostics.service.own.metrics import OwnMetrics

PATH = "/mcp"
# Seconds: a moment of the past is read from the history and judged again.
_PATIENCE = 120.0
Deployment = Annotated[str, Field(description="A name that `state` lists.")]
At = Annotated[float | None, Field(description="A moment of the past in Unix seconds; now where it is missing.")]
Since = Annotated[float, Field(description="How many seconds before that moment to look.")]
Settings = Annotated[Sequence[str], Field(description="MODEL.SETTING=VALUE, as in safety.instance_group.count=2.")]
Rate = Annotated[str, Field(description="How much arrives: a multiple of now (2x), or requests per second (40/s).")]
Tokens = Annotated[str, Field(description="Tokens of an LLM engine's requests: a multiple of now (2x), or a mean.")]
Lasting = Annotated[str, Field(description="open, closed or any.")]


def _is_ours(record: logging.LogRecord) -> bool:
    """Return whether what the library could not do is a fault; a client that leaves, or sends too much, makes none."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ClientDisconnect | HTTPException)


logging.getLogger("mcp.server.streamable_http").addFilter(_is_ours)


class ServiceTools:
    """The tools of the running service."""

    def __init__(self, routes: FastAPI) -> None:
        """`routes` are those of the API, without the guard: whoever asks was let in already."""
        self._client = AsyncClient(transport=ASGITransport(routes), base_url="http://service", timeout=_PATIENCE)

    def all(self) -> Sequence[Callable[..., Awaitable[str]]]:
        """Return the tools."""
        return (self.state, self.fleet, self.explain, self.why_not, self.whatif, self.incidents, self.slo, self.runbook)

    async def state(self) -> str:
        """Return what is wrong now, as JSON: servers, deployments with their findings, open incidents."""
        return await self._read("/state")

    async def fleet(self) -> str:
        """Return how all deployments of all workers stand, the worst first, as JSON."""
        return await self._read("/fleet")

    async def explain(self, deployment: Deployment, at: At = None, since: Since = 300.0) -> str:
        """Say why a deployment is slow, now or at a moment of the past, and which line to change."""
        if at is None:
            return await self._read(f"/deployments/{quote(deployment, safe='')}/explanation", output="markdown")
        return await self._read("/explain", deployment=deployment, at=at, since=since, output="markdown")

    async def why_not(self, deployment: Deployment, check: Check) -> str:
        """Show what one check saw, and what would have changed its mind."""
        return await self._read(f"/deployments/{quote(deployment, safe='')}/checks/{quote(check, safe='')}")

    async def whatif(
        self,
        deployment: Deployment,
        settings: Settings = (),
        rate: Rate = "",
        prompt_tokens: Tokens = "",
        output_tokens: Tokens = "",
    ) -> str:
        """Say what a change of settings or load would do to a deployment; nothing is changed."""
        given = {"rate": rate, "prompt_tokens": prompt_tokens, "output_tokens": output_tokens}
        load = {name: text for name, text in given.items() if text}
        return await self._read("/whatif", deployment=deployment, set=list(settings), output="markdown", **load)

    async def incidents(self, state: Lasting = "any", limit: int = 20) -> str:
        """Return incidents, the newest first, as JSON."""
        return await self._read("/incidents", state=state, limit=limit)

    async def slo(self) -> str:
        """Say how objectives stand, and which causes took their budgets."""
        return await self._read("/slos", output="markdown")

    async def runbook(self, check: Check) -> str:
        """Return the runbook of a check: what it means, what to do, its limits."""
        found = catalogue().get(check)
        if found is None:
            raise ToolError(f"there is no check {check!r}; known: {', '.join(catalogue())}")
        return bounded(found.runbook)

    async def _read(self, path: str, **query: str | float | list[str]) -> str:
        answer = await self._client.get(f"{PREFIX}{path}", params=query)
        if answer.is_error:
            raise ToolError(bounded(answer.json()["detail"]))
        return bounded(answer.text)


class AgentEndpoint(NamedTuple):
    """What answers at `PATH`, and what must run meanwhile."""

    routes: Sequence[BaseRoute]
    lifespan: Callable[[], AbstractAsyncContextManager[None]]


def agent_endpoint(routers: Iterable[APIRouter], metrics: OwnMetrics) -> AgentEndpoint:
    """Return the endpoint of the tools that read the API behind `routers`."""
    inner = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, default_response_class=JsonAnswer)
    inner.add_middleware(RefuseNul)
    answer_with_problems(inner, metrics)
    for routes in routers:
        inner.include_router(routes)
    server = agent_server(ServiceTools(inner).all())
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        # The guard knows the names of the listener, those of a proxy too.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return AgentEndpoint(app.routes, server.session_manager.run)
