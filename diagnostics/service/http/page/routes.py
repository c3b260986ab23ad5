"""The addresses of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page import assets
from diagnostics.service.http.page.fleet import Fleet
from diagnostics.service.http.page.frame import html_answer
from diagnostics.service.http.page.incidents import IncidentFilter
from diagnostics.service.http.page.pages import AWAY, Pages, Shown
from diagnostics.service.http.page.timeline_answer import TimelineQuery, answer

FRAGMENTS = "/fragments"
A_YEAR = 365 * 86400
Text = Annotated[str, Query(max_length=200)]


def router(context: WebContext, fleet: Fleet) -> APIRouter:
    """Return the pages, their contents alone under `/fragments`, and the files they use."""
    routes, pages = APIRouter(include_in_schema=False), Pages(context, fleet)
    _add(routes, pages, "/", lambda: pages.now(), fragment=f"{FRAGMENTS}/now")
    _add(routes, pages, "/runbooks", lambda: pages.runbooks())
    _add_parametrized(routes, pages)
    _add_files(routes)
    _add_timelines(routes, context)
    return routes


def _add(routes: APIRouter, pages: Pages, path: str, make: Callable[..., Shown], *, fragment: str = "") -> None:
    """Add a page at `path`, and its content at the same path under `/fragments`."""
    made = Depends(make)

    def whole(request: Request, shown: Shown = made) -> Response:
        below = request.scope["path"].removeprefix(request.scope["root_path"])
        where = fragment or FRAGMENTS + quote(below)
        again = f"{where}?{request.url.query}" if request.url.query else where
        query = request.query_params.get("q", "") if path == "/search" else ""
        return pages.frame.page(
            shown.title, shown.content, fragment=again if shown.lives else "", query=query, status=shown.status
        )

    def alone(shown: Shown = made) -> Response:
        answer = html_answer(shown.content, shown.status)
        answer.headers["X-Title"] = quote(shown.title.encode("utf-8", "replace"))
        return answer

    routes.add_api_route(path, whole, methods=["GET"])
    routes.add_api_route(fragment or FRAGMENTS + path, alone, methods=["GET"])


def _add_parametrized(routes: APIRouter, pages: Pages) -> None:
    def deployment(name: str, at: Text = "", check: Text = "") -> Shown:
        return pages.deployment(name, at, check)

    def incident(identity: str) -> Shown:
        return pages.incident(identity)

    def incidents(
        q: Text = "", state: Text = "any", deployment: Text = "", check: Text = "", severity: Text = ""
    ) -> Shown:
        return pages.incidents(
            IncidentFilter(text=q, state=state, deployment=deployment, check=check, severity=severity)
        )

    def search(q: Text = "") -> Shown:
        return pages.search(q)

    def runbook(check: str) -> Shown:
        return pages.runbook(check)

    _add(routes, pages, "/deployments/{name}", deployment)
    _add(routes, pages, "/incidents", incidents)
    _add(routes, pages, "/incidents/{identity}", incident)
    _add(routes, pages, "/search", search)
    _add(routes, pages, "/runbooks/{check}", runbook)


def _add_files(routes: APIRouter) -> None:
    @routes.get("/static/{name}")
    def static(name: str, v: str = "", accept_encoding: Annotated[str, Header()] = "") -> Response:
        if name not in assets.NAMES:
            raise HTTPException(404, "there is no such file")
        file = assets.read(name)
        kept = f"public, max-age={A_YEAR}, immutable" if v == file.version else "no-cache"
        headers = {"Cache-Control": kept, "Vary": "Accept-Encoding", "X-Content-Type-Options": "nosniff"}
        if "gzip" in accept_encoding:
            return Response(file.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=file.type)
        return Response(file.body, headers=headers, media_type=file.type)


def _add_timelines(routes: APIRouter, context: WebContext) -> None:
    @routes.get(f"{FRAGMENTS}/timelines/{{name}}")
    def timelines(name: str, asked: Annotated[TimelineQuery, Query()]) -> dict[str, Any]:
        try:
            found = answer(context, name, asked)
        except SQLAlchemyError:
            raise HTTPException(503, AWAY) from None
        if found is None:
            raise HTTPException(404, "nothing of this name is remembered")
        return found
