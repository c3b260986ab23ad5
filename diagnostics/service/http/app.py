"""All routes together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import APIRouter, FastAPI

from diagnostics import __version__
from diagnostics.service.http import api, api_past, api_slo, health, metrics, otlp, page, probe
from diagnostics.service.http.authentication import Authentication
from diagnostics.service.http.below import PathPrefixMiddleware
from diagnostics.service.http.context import WebContext as WebContext
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.guard import Guard
from diagnostics.service.http.head import HeadAsGet
from diagnostics.service.http.hosts import Hosts
from diagnostics.service.http.json_answer import JsonAnswer
from diagnostics.service.http.live import Live
from diagnostics.service.http.openapi import document
from diagnostics.service.http.page.fleet import Fleet
from diagnostics.service.http.problems import answer_with_problems
from diagnostics.service.http.traced import TracingMiddleware
from diagnostics.service.listening import LISTEN_SETTING, parse_listen
from diagnostics.service.peers import Peers
from diagnostics.settings.prefix import Prefix, prefix_of
from exporters.sources.access import read_secret

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
    fleet = Fleet()
    live = Live(context.service.board, [exposition.take, fleet.take], [exposition.render, credentials.refresh])
    app = _made(live)
    app.state.live, app.state.credentials, app.state.probes = live, credentials, probe.Probes(context)
    app.state.authentication, app.state.peers = Authentication(credentials), Peers()
    app.openapi = partial(document, app, credentials, prefix.links)  # type: ignore[method-assign]
    _guard(app, context, prefix)
    answer_with_problems(app, context.metrics)
    for routes in _routes(context, live, exposition, app.state.probes, fleet):
        app.include_router(routes)
    return app


def _made(live: Live) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.start()
        yield
        live.end()
        live.join()

    return FastAPI(
        title="Triton diagnostics",
        description="Why an NVIDIA Triton endpoint is slow, now and in the past.",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        default_response_class=JsonAnswer,
    )


def _guard(app: FastAPI, context: WebContext, prefix: Prefix) -> None:
    """Put the guard before everything else; what is added last comes first."""
    web = context.settings.web
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


def _routes(
    context: WebContext, live: Live, exposition: metrics.Exposition, probes: probe.Probes, fleet: Fleet
) -> Iterator[APIRouter]:
    yield health.router(context, live)
    yield metrics.router(exposition)
    yield probe.router(probes)
    yield api.router(context, live)
    yield api_past.router(context)
    yield api_slo.router(context)
    yield otlp.router(context)
    yield page.router(context, fleet)
