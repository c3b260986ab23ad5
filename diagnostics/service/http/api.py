"""The JSON API of now: the newest state, verdicts, what each check says."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from diagnostics import __version__
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.service.http.answers import (
    CheckAnswer,
    DeploymentState,
    ServiceState,
    WhyAnswer,
    check_answer,
    deployment_state,
    state_answer,
    why_answer,
)
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.live import Live
from diagnostics.service.http.openapi import EXPLANATION, PROBLEMS
from diagnostics.service.http.parameters import ONLY_KNOWN
from diagnostics.service.http.rendering import Output, rendered
from diagnostics.service.state import Evaluation, TargetState
from diagnostics.units import time_text

PREFIX = "/api/v1"
LONGEST_WAIT = 30.0
MOST_WAITING = 256
Name = Annotated[str, Path(min_length=1, max_length=200)]


def router(context: WebContext, live: Live) -> APIRouter:
    """Return what is under `/api/v1` about now."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN)
    _add_index(routes)
    _add_state(routes, context, live)
    _add_deployments(routes, context)

    @routes.get("/checks", summary="Checks")
    def checks() -> list[CheckAnswer]:
        """Return all checks, with their runbooks."""
        return [check_answer(check) for check in catalogue().values()]

    @routes.get("/targets", summary="Targets")
    async def targets() -> list[TargetState]:
        """Return the servers that are watched."""
        return sorted(context.service.board.read().targets.values(), key=lambda one: one.server)

    return routes


class ApiIndex(BaseModel):
    """What the API holds."""

    version: str = Field(description="Of the service.")
    openapi: str = Field(description="Where the OpenAPI document is.")
    paths: dict[str, str] = Field(description="What each path answers with, in words.")


def _add_index(routes: APIRouter) -> None:
    @routes.get("/", summary="What there is")
    def index(request: Request) -> ApiIndex:
        """Return every path of the API with what it answers with."""
        held = request.app.openapi()["paths"]
        told = {path: next(iter(methods.values())).get("summary", "") for path, methods in held.items()}
        return ApiIndex(version=__version__, openapi=f"{PREFIX}/openapi.json", paths=told)


def _add_state(routes: APIRouter, context: WebContext, live: Live) -> None:
    @routes.get("/state", summary="ServiceState")
    async def state(
        after: Annotated[int, Query(ge=-1, description="A version; the answer waits for another one.")] = -1,
        wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds.")] = 0.0,
    ) -> ServiceState:
        """Return the newest state, as soon as it is not that of version `after`, at the latest after `wait`."""
        if wait and live.waiting >= MOST_WAITING:
            raise HTTPException(503, f"{MOST_WAITING} requests wait already", {"Retry-After": "5"})
        newest = await live.newer_than(after, wait) if wait else context.service.board.read()
        return state_answer(newest, context.clock(), context.metrics.faults.lasting())


def _add_deployments(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/deployments", summary="Deployments")
    async def deployments() -> list[DeploymentState]:
        """Return the newest verdict on each deployment."""
        found = context.service.board.read().evaluations
        return [deployment_state(found[name]) for name in sorted(found)]

    @routes.get("/deployments/{name}/explanation", summary="Explanation", responses=EXPLANATION, response_model=None)
    def explanation(name: Name, output: Output = Output.JSON) -> Response:
        """Return the newest verdict on a deployment with all its evidence."""
        return rendered(_as_of_now(context, name), output)

    @routes.get("/deployments/{name}/checks/{check}", summary="Why, or why not")
    def why(name: Name, check: Name) -> WhyAnswer:
        """Return why a check fires on a deployment, or why it does not."""
        return why_answer(_evaluation(context, name), _check(check))


def _evaluation(context: WebContext, name: str) -> Evaluation:
    found = context.service.board.read().evaluations.get(name)
    if found is not None:
        return found
    if name in context.service.deployments:
        raise HTTPException(503, f"{name} was not judged yet: its first rounds are still to come", {"Retry-After": "5"})
    raise HTTPException(404, f"there is no deployment {name!r}")


def _as_of_now(context: WebContext, name: str) -> Explanation:
    """Return the newest explanation, and beside it which servers do not answer any more."""
    found = _evaluation(context, name).explanation
    targets = [one for one in context.service.board.read().targets.values() if one.deployment == name]
    away = [one for one in targets if not one.up and one.failures]
    spots = tuple(
        BlindSpot(what=f"{one.server} as it is now", why=_away(one), fix="look whether it runs, and at its log")
        for one in away
    )
    told = "; ".join(f"{one.server} {_away(one)}" for one in away)
    stale = f"Not current: {told}. This is the last state that was read." if len(away) == len(targets) else ""
    return replace(found, blind_spots=(*spots, *found.blind_spots), stale=stale if away else "")


def _away(target: TargetState) -> str:
    since = f" since {time_text(target.last_success)}" if target.last_success is not None else ""
    return f"has not answered{since} ({target.error or 'no reason is known'})"


def _check(identifier: str) -> RegisteredCheck:
    found = catalogue().get(identifier)
    if found is None:
        raise HTTPException(404, f"there is no check {identifier!r}; GET {PREFIX}/checks lists them")
    return found
