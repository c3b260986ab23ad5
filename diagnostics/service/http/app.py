"""Routes below a prefix: everything else is nowhere, and links and redirects keep the prefix of the outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from diagnostics import __version__
from diagnostics.errors import not_installed
from diagnostics.service.fleet import FleetBoard
from diagnostics.service.http import api, health, metrics, otlp, page, probe
from diagnostics.service.http.authentication import Attempts, Authentication
from diagnostics.service.http.context import WebContext as WebContext
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.fleet import fleet_router
from diagnostics.service.http.guard import Guard, Hosts
from diagnostics.service.http.live import Live
from diagnostics.service.http.openapi import TAGS, document
from diagnostics.service.http.otlp import PATH as RECEIVER
from diagnostics.service.http.page.pictures import IncidentPictures
from diagnostics.service.http.pictures import pictures_router
from diagnostics.service.http.problems import JsonAnswer, RefuseNul, answer_with_problems, problem
from diagnostics.service.http.what_if import what_if_router
from diagnostics.service.http.writes import MOST_WRITES, SECONDS_PER_WRITE, writes_router
from diagnostics.service.listening import LISTEN_SETTING, parse_listen
from diagnostics.service.own.tracer import SpanRole, Tracer, Value
from diagnostics.service.peers import Peers
from diagnostics.settings.addresses import Prefix, prefix_of
from exporters.sources.access import read_secret

if TYPE_CHECKING:
    from diagnostics.service.http.agents import AgentEndpoint


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


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"})
_LONGEST_PATH = 500
_CONTEXT = ("traceparent", "tracestate", "baggage")


class TracingMiddleware:
    """ASGI middleware, for what the guard lets in."""

    def __init__(self, app: ASGIApp, *, tracer: Tracer) -> None:
        self._app, self._tracer = app, tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _inner_path(scope) == RECEIVER:
            await self._app(scope, receive, send)
            return
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        with self._tracer.span(method, _attributes(scope, method), kind=SpanRole.SERVER, caller=_caller(scope)) as span:

            async def sending(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = message["status"]
                    span.note("http.response.status_code", status)
                    if status >= 500:
                        span.failed(str(status))
                await send(message)

            await self._app(scope, receive, sending)
            route = getattr(scope.get("route"), "path", "")
            if route:
                span.call(f"{method} {route}")
                span.note("http.route", route)


def _inner_path(scope: Scope) -> str:
    return str(scope["path"]).removeprefix(scope.get("root_path", ""))


def _attributes(scope: Scope, method: str) -> dict[str, Value]:
    found: dict[str, Value] = {
        "http.request.method": method,
        "url.scheme": scope.get("scheme", "http"),
        "url.path": scope["path"][:_LONGEST_PATH],
        "network.protocol.version": scope.get("http_version", ""),
    }
    for name, pair in (("server", scope.get("server")), ("client", scope.get("client"))):
        if pair:
            found |= {f"{name}.address": pair[0], f"{name}.port": pair[1] or 0}
    return found


def _caller(scope: Scope) -> dict[str, str]:
    headers = Headers(scope=scope)
    return {name: headers[name] for name in _CONTEXT if name in headers}


OPENAPI = "/api/v1/openapi.json"


def application(context: WebContext) -> FastAPI:
    """Return the application, guarded.

    `app.state.live` follows the board while it runs; `app.state.authentication` says who may come in;
    `app.state.peers` are who is connected.

    Raises:
        UsageError: a setting, or a file that it names, cannot be used.

    """
    web = context.settings.web
    credentials = Credentials(
        web,
        read_secret,
        failed=context.metrics.errors.labels("web configuration").inc,
        apply=lambda change: live.in_loop(change),
    )
    prefix = prefix_of(web.external_url, web.route_prefix)
    exposition = metrics.Exposition(context.metrics, context.settings.collect.window, context.clock)
    fleet = context.fleet or FleetBoard(context.service, clock=context.clock)
    live = Live(context.service.board, [exposition.update, fleet.update], [exposition.render, credentials.refresh])
    probes = probe.Probes(context)
    now = (api.router(context, live), fleet_router(fleet), what_if_router(context))
    reading = (*now, api.past_router(context), api.slo_router(context))
    agents = _agents(reading, context) if web.mcp else None
    app = _made(live, agents.lifespan if agents else None)
    app.state.operators = frozenset(web.operators)
    app.state.writes = Attempts(most=MOST_WRITES, seconds=SECONDS_PER_WRITE)
    app.state.live, app.state.credentials, app.state.probes = live, credentials, probes
    app.state.authentication, app.state.peers = Authentication(credentials), Peers()
    app.openapi = partial(document, app, credentials, prefix.links)  # type: ignore[method-assign]
    _guard(app, context, prefix)
    answer_with_problems(app, context.metrics)
    app.router.routes.extend(agents.routes if agents else ())
    # A path is looked for in this order: what is asked for most comes first.
    ends = (health.router(context, live), otlp.router(context), metrics.router(exposition), probe.router(probes))
    pictures = pictures_router(IncidentPictures(context))
    for routes in (*ends, *reading, pictures, writes_router(context), page.router(context, fleet)):
        app.include_router(routes)
    return app


def _agents(reading: Iterable[APIRouter], context: WebContext) -> AgentEndpoint:
    try:
        from diagnostics.service.http.agents import agent_endpoint
    except ModuleNotFoundError as error:
        raise not_installed(error, "mcp", where="web.mcp") from None
    return agent_endpoint(reading, context.metrics)


def _made(live: Live, beside: Callable[[], AbstractAsyncContextManager[None]] | None) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.start()
        async with beside() if beside is not None else nullcontext():
            yield
        live.end()
        live.join()

    return FastAPI(
        title="Triton diagnostics",
        description="Why an NVIDIA Triton endpoint is slow, now and in the past.",
        version=__version__,
        openapi_url=OPENAPI,
        openapi_tags=TAGS,
        # Of its own each operation would be called after its path and method, too.
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=JsonAnswer,
    )


def _guard(app: FastAPI, context: WebContext, prefix: Prefix) -> None:
    """Put the guard before everything else; what is added last comes first."""
    web = context.settings.web
    app.add_middleware(RefuseNul)
    app.add_middleware(HeadAsGet)
    if context.metrics.tracer.on:
        app.add_middleware(TracingMiddleware, tracer=context.metrics.tracer)
    app.add_middleware(PathPrefixMiddleware, prefix=prefix)
    app.add_middleware(
        Guard,
        hosts=Hosts(web, parse_listen(web.listen_address, LISTEN_SETTING)),
        authentication=app.state.authentication,
        max_body=web.max_body,
        metrics=context.metrics,
        peers=app.state.peers,
        routes=prefix.routes,
    )
