"""Routes below a prefix: everything else is nowhere, and links and redirects keep the prefix of the outside."""

from __future__ import annotations

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from diagnostics.service.http.problems import problem
from diagnostics.settings.prefix import Prefix


class PathPrefixMiddleware:
    """ASGI middleware. Routes see the paths of the outside, with its prefix as `root_path`."""

    def __init__(self, app: ASGIApp, *, prefix: Prefix) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, routes, links = scope["path"], self._prefix.routes, self._prefix.links
        if path.startswith(f"{routes}/"):
            inside = {**scope, "path": links + path.removeprefix(routes), "root_path": links}
            await self._app(inside, receive, send)
        elif path in ("", "/", routes):
            await RedirectResponse(f"{links}/")(scope, receive, send)
        else:
            await problem(404, f"everything is below {routes}/: web.route_prefix")(scope, receive, send)
