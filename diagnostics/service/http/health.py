"""Whether the service lives, and whether it is ready: open to everyone, as those who ask have no credentials."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse

from diagnostics.service.http.context import WebContext
from diagnostics.service.http.live import Live

OPEN_PATHS = frozenset({"/healthz", "/readyz"})


def router(context: WebContext, live: Live) -> APIRouter:
    """Return `/healthz` and `/readyz`."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/healthz")
    async def healthy() -> PlainTextResponse:
        return PlainTextResponse("ok\n")

    @routes.get("/readyz")
    async def ready() -> PlainTextResponse:
        if live.ended:
            return PlainTextResponse("ending\n", 503)
        state = context.service.board.read()
        # A worker of a fleet may have no deployment of its own: it waits for no server.
        if context.service.deployments and not state.targets:
            return PlainTextResponse("no server was read yet\n", 503)
        return PlainTextResponse("ready\n")

    return routes
