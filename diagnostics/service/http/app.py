"""All routes together."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec

from fastapi import APIRouter, FastAPI

from diagnostics import __version__
from diagnostics.service.http import api, health
from diagnostics.service.http.context import WebContext as WebContext
from diagnostics.service.http.live import Live
from diagnostics.service.http.problems import answer_with_problems

OPENAPI = "/api/v1/openapi.json"
_PLUGGED = ("otlp", "page")


def application(context: WebContext) -> FastAPI:
    """Return the application; `app.state.live` follows the board while it runs."""
    live = Live(context.service.board)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        live.start()
        yield
        live.end()
        live.join()

    app = FastAPI(
        title="Triton diagnostics",
        description="Why an NVIDIA Triton endpoint is slow, now and in the past.",
        version=__version__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.live = live
    answer_with_problems(app, context.metrics)
    app.include_router(health.router(context, live))
    app.include_router(api.router(context, live))
    for plugged in _plugged(context):
        app.include_router(plugged)
    return app


def _plugged(context: WebContext) -> list[APIRouter]:
    names = [f"{__package__}.{name}" for name in _PLUGGED]
    return [importlib.import_module(name).router(context) for name in names if find_spec(name)]
