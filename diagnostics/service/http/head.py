"""HEAD is answered as GET: by the same route, with the same headers, and without a body."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """ASGI middleware. Routes see GET; the server, which sees HEAD still, sends no body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        inside = {**scope, "method": "GET"}
        await self._app(inside, receive, send)
        # By what answered it a span is named.
        scope["route"] = inside.get("route")
