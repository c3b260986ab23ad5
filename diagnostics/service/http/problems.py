"""JSON whatever servers call themselves: a name may hold half a surrogate pair, which UTF-8 cannot."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from diagnostics.errors import DiagError, UsageError
from diagnostics.render.plain import clean
from diagnostics.service.own.metrics import OwnMetrics
from diagnostics.wire.redact import scrub_shapes


class JsonAnswer(JSONResponse):
    """An answer in ASCII, with escapes for all other characters."""

    def render(self, content: object) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"
_LONGEST = 500


class HttpProblem(BaseModel):
    """Why there is no answer."""

    type: str = Field(default="about:blank", description="There are no further kinds than the status.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong, where, and what to do, in one line.")


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JsonAnswer:
    """Return the answer; `detail` is shortened and freed of control characters."""
    line = " ".join(scrub_shapes(clean(detail)).split())[:_LONGEST]
    body = HttpProblem(title=HTTPStatus(status).phrase, status=status, detail=line)
    return JsonAnswer(body.model_dump(), status, headers, media_type=MEDIA_TYPE)


class RefuseNul:
    """ASGI middleware. Answers 404 to a path or query with a NUL, which PostgreSQL stores nowhere and cannot look for.

    Without it such a name is a failure of the database, and not of whoever asks.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http":
            if "\0" in scope["path"]:
                app = problem(404, "the path holds a NUL character; no name has one")
            elif b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
                app = problem(404, "the query holds a NUL character; no name has one")
        await app(scope, receive, send)


def _detail(request: Request, error: HTTPException) -> str:
    """Return the text of an error: a framework's own words for a missing route do not help."""
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        taken = _headers(error).get("Allow", "another method")
        return f"{request.url.path[:200]} does not take {request.method}; it takes {taken}"
    if str(error.detail) != HTTPStatus.NOT_FOUND.phrase:
        return str(error.detail)
    return f"there is nothing at {request.url.path[:200]}; /api/v1/openapi.json lists what there is"


def _headers(error: HTTPException) -> dict[str, str]:
    """Return the headers that go with an error; what takes GET takes HEAD, which routes never see."""
    found = dict(error.headers or {})
    if "Allow" in found:
        methods = {one.strip() for one in found["Allow"].split(",")}
        found["Allow"] = ", ".join(sorted(methods | ({"HEAD"} if "GET" in methods else set())))
    return found


def answer_with_problems(app: FastAPI, metrics: OwnMetrics) -> None:
    """Turn every exception of a route into a problem document."""

    async def reported(request: Request, error: Exception) -> JsonAnswer:
        assert isinstance(error, HTTPException)
        return problem(error.status_code, _detail(request, error), _headers(error))

    async def invalid(request: Request, error: Exception) -> JsonAnswer:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        hint = f"; ask as in {request.url.path}?{where}=…" if first["type"] == "missing" else ""
        return problem(400, f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}{hint}")

    async def failed(_: Request, error: Exception) -> JsonAnswer:
        return problem(400 if isinstance(error, UsageError) else 503, str(error))

    async def unexpected(request: Request, error: Exception) -> JsonAnswer:
        metrics.errors.labels("http").inc()
        log.error("answering %s %s", request.method, request.url.path, exc_info=error)
        return problem(500, "the service failed to answer; its log says why")

    async def away(_: Request, error: Exception) -> JsonAnswer:
        metrics.errors.labels("history").inc()
        log.warning("the history does not answer: %s", type(error).__name__)
        return problem(503, "the history does not answer just now", {"Retry-After": "10"})

    app.add_exception_handler(SQLAlchemyError, away)
    app.add_exception_handler(HTTPException, reported)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(DiagError, failed)
    app.add_exception_handler(Exception, unexpected)
