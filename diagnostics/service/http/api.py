"""Parameters that nobody knows, or more of one than are read: refused.

An answer to another question than was asked is worse than none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from typing import Annotated, TypeVar, get_args, get_origin

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request
from fastapi.responses import PlainTextResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from diagnostics import __version__
from diagnostics.checks.catalogue import RegisteredCheck, catalogue
from diagnostics.diagnosis.explanation import BlindSpot, Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.slo.document import slo_document
from diagnostics.render.slo.json import slo_report
from diagnostics.render.text import as_text
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
from diagnostics.service.http.openapi import EXPLANATION, NOW, OBJECTIVES, PAST, PROBLEMS, SLOS
from diagnostics.service.http.problems import JsonAnswer
from diagnostics.service.http.rendering import Output, rendered
from diagnostics.service.state import Evaluation, TargetState
from diagnostics.slo.report import SloReport
from diagnostics.slo.slo import LONGEST_PERIOD, SHORTEST_PERIOD
from diagnostics.spelling import meant
from diagnostics.store.reader import Bucket, HistoryReader, IncidentStory, PastVerdict, State
from diagnostics.store.statements import KEPT
from diagnostics.units import time_text


def _takes_several(annotation: object) -> bool:
    return any(get_origin(one) is list for one in (annotation, *get_args(annotation)))


def _only_known(request: Request) -> None:
    route: APIRoute = request.scope["route"]
    known = sorted(each.alias for each in route.dependant.query_params)
    single = {each.alias for each in route.dependant.query_params if not _takes_several(each.field_info.annotation)}
    for name in request.query_params:
        if name in single and len(request.query_params.getlist(name)) > 1:
            raise HTTPException(400, f"{name}: is there twice; give it once")
        if name not in known:
            rest = f"there are {', '.join(known)}" if known else "there are none"
            raise HTTPException(400, f"{name[:100]}: there is no such parameter; {rest}")


ONLY_KNOWN = [Depends(_only_known)]
"""The dependencies of a router whose paths refuse parameters that they do not have, with status 400."""


_MOST_INCIDENTS = 1_000


class SloOutput(StrEnum):
    """How the report is written."""

    JSON = "json"
    TEXT = "text"
    MARKDOWN = "markdown"


def slo_router(context: WebContext) -> APIRouter:
    """Return `/api/v1/slos`."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[OBJECTIVES])

    @routes.get("/slos", summary="Objectives", responses=SLOS, response_model=None)
    def slos(
        period: Annotated[
            float | None,
            Query(
                ge=SHORTEST_PERIOD,
                le=LONGEST_PERIOD,
                allow_inf_nan=False,
                description="Length of the budget's period, in seconds. Each objective's own by default.",
            ),
        ] = None,
        name: Annotated[
            list[str] | None, Query(max_length=100, description="Names of objectives. All by default; may be repeated.")
        ] = None,
        output: Annotated[SloOutput, Query(description="Form of the answer.")] = SloOutput.JSON,
    ) -> Response:
        """Return how the objectives stand: budgets, burn rates, forecasts, and what took the budgets."""
        keeper = context.objectives
        known = {slo.name: slo for slo in keeper.slos} if keeper is not None else {}
        missing = [one for one in name or () if one not in known]
        if missing:
            raise HTTPException(404, f"the service counts no objective {missing[0]!r}: add it to its settings")
        chosen = [one for one in slo_reports(context, period) if name is None or one.slo.name in name]
        match output:
            case SloOutput.JSON:
                return JsonAnswer(slo_report(chosen))
            case SloOutput.TEXT:
                return PlainTextResponse(as_text(slo_document(chosen)))
            case SloOutput.MARKDOWN:
                return PlainTextResponse(as_markdown(slo_document(chosen)), media_type="text/markdown")

    return routes


def slo_reports(context: WebContext, period: float | None = None) -> list[SloReport]:
    """Return how the objectives stand, with the incidents of what took their budgets; none without objectives.

    Raises:
        SQLAlchemyError: the history's database is away.

    """
    keeper = context.objectives
    if keeper is None:
        return []
    since = context.clock() - (period or max((slo.period for slo in keeper.slos), default=0.0))
    return keeper.reports(period, _incidents(context, since))


def _incidents(context: WebContext, since: float) -> list[Incident]:
    if context.history is None:
        return list(context.service.board.read().incidents)
    return context.history.incidents(since=since, limit=_MOST_INCIDENTS)


# Judging the past again takes seconds of a processor.
MOST_AT_ONCE = 2
A_DAY = 86400.0
LONGEST_WINDOW = A_DAY
MOST_POINTS = 2_000
_LAST_SECOND = 253_402_300_799.0  # of the year 9999


def _second(meaning: str) -> object:
    """Return a parameter that is a moment in Unix seconds."""
    return Query(ge=0, le=_LAST_SECOND, allow_inf_nan=False, description=meaning)


def _named(meaning: str) -> object:
    """Return a parameter that is a name."""
    return Query(min_length=1, max_length=200, description=meaning)


Start = Annotated[float | None, _second("Start of the time, in Unix seconds.")]
End = Annotated[float | None, _second("End of the time, in Unix seconds.")]
OfDeployment = Annotated[str, _named("Name of the deployment.")]
Written = Annotated[
    Output,
    Query(
        description="`text` is `diag explain -v`, `brief` its 40 lines without `-v`, "
        "`coloured` is `text` with the colours of a terminal. Form of the answer."
    ),
]
Colour = Annotated[bool, Query(description="Whether `brief` has the colours of a terminal, too.")]


def past_router(context: WebContext) -> APIRouter:
    """Return what is under `/api/v1` about the past."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[PAST])
    _add_incidents(routes, context)
    _add_explain(routes, context)
    _add_timelines(routes, context)
    return routes


TRUNCATED = "X-Truncated"
"""The header of an answer that leaves out what was found beyond its limit; it says which part is there."""
_Row = TypeVar("_Row")


def _cut(found: Sequence[_Row], limit: int, response: Response, *, newest_last: bool = False) -> list[_Row]:
    """Return the first of one more than `limit`, or the last where the newest come last, and say so in a header."""
    if len(found) > limit:
        response.headers[TRUNCATED] = f"there are more than these {limit}; choose a shorter time, or a larger step"
    return list(found[-limit:] if newest_last else found[:limit])


def _add_incidents(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/incidents", summary="Incidents")
    def incidents(
        response: Response,
        state: Annotated[State, Query(description="Which incidents.")] = "any",
        deployment: Annotated[str | None, _named("Name of the deployment. All by default.")] = None,
        start: Start = None,
        end: End = None,
        limit: Annotated[int, Query(ge=1, le=1_000, description="Most incidents to return.")] = 100,
    ) -> list[Incident]:
        """Return the incidents that lasted at some time between `start` and `end`, the newest first.

        The header `X-Truncated` says if there are more than `limit`.
        """
        _check_order(start, end)
        if context.history is None:
            found = _open_ones(context, state, deployment, end)
            return _cut(sorted(found, key=lambda one: (-one.opened, one.id)), limit, response)
        past = context.history
        found = past.incidents(state=state, deployment=deployment, since=start, until=end, limit=limit + 1)
        return _cut(found, limit, response)

    @routes.get("/incidents/{identity}", summary="An incident")
    def incident(
        identity: Annotated[str, Path(min_length=1, max_length=64, description="Id of the incident.")],
    ) -> IncidentStory:
        """Return an incident with all that is known of it."""
        found = context.history.incident(identity) if context.history is not None else None
        found = found or next((_story(one) for one in _all_open(context) if one.id == identity), None)
        if found is None:
            raise HTTPException(404, f"there is no incident {identity!r}")
        return replace(found, acknowledged=context.attention.acknowledgement(identity))


def _add_explain(routes: APIRouter, context: WebContext) -> None:
    free = threading.BoundedSemaphore(MOST_AT_ONCE)

    @routes.get("/explain", summary="A moment of the past", responses=EXPLANATION, response_model=None)
    def explain(
        deployment: OfDeployment,
        at: Annotated[float | None, _second("End of the window, in Unix seconds. Now by default.")] = None,
        since: Annotated[
            float,
            Query(gt=0, le=LONGEST_WINDOW, allow_inf_nan=False, description="Length of the window, in seconds."),
        ] = 300.0,
        output: Written = Output.JSON,
        colour: Colour = False,
    ) -> Response:
        """Return the verdict on the `since` seconds before `at`, by default now."""
        history = _history(context)
        known = context.service.deployments.get(deployment)
        moment = context.clock() if at is None else at
        with one_of(free):
            stated = history.explain_at(deployment, moment, since, known.objective if known else None)
            if not stated.window.end:
                raise HTTPException(404, f"nothing was recorded of {deployment!r} in that time")
            return rendered(stated, output, colour=colour)


def _add_timelines(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/verdicts", summary="Verdicts over time")
    def verdicts(
        response: Response,
        deployment: OfDeployment,
        start: Start = None,
        end: End = None,
        limit: Annotated[int, Query(ge=1, le=MOST_POINTS, description="Most verdicts to return.")] = MOST_POINTS,
    ) -> list[PastVerdict]:
        """Return what was said of a deployment between `start` (by default a day ago) and `end` (now).

        If there is more than `limit`, the newest are returned, and the header `X-Truncated` says so.
        """
        found = _history(context).verdicts(deployment, *_span(context, start, end), limit + 1)
        return _cut(found, limit, response, newest_last=True)

    @routes.get("/signals", summary="A signal over time")
    def signals(
        response: Response,
        deployment: OfDeployment,
        server: Annotated[str, _named("Name of the server.")],
        model: Annotated[str, _named("Name of the model.")],
        signal: Annotated[str, _named("Name of the signal.")],
        version: Annotated[str | None, _named("Version of the model. All together by default.")] = None,
        start: Start = None,
        end: End = None,
        step: Annotated[
            float, Query(ge=60, le=7 * 86400, allow_inf_nan=False, description="Seconds between two values.")
        ] = 60.0,
    ) -> list[Bucket]:
        """Return a signal of a model in steps, between `start` (by default a day ago) and `end` (now).

        Of more than 2,000 steps the oldest are returned, and the header `X-Truncated` says so.
        """
        if signal not in KEPT:
            raise HTTPException(404, f"{signal!r} is not kept; {', '.join(KEPT)} are")
        first, last = _span(context, start, end)
        most = MOST_POINTS + 1
        found = _history(context).signals(
            deployment, signal, first, last, server=server, model=model, version=version, step=step, limit=most
        )
        return _cut(found, MOST_POINTS, response)


def _span(context: WebContext, start: float | None, end: float | None) -> tuple[float, float]:
    """Return the first and the last second that are meant: by default a day ago, and now."""
    last = context.clock() if end is None else end
    _check_order(start, last)
    return last - A_DAY if start is None else start, last


def _check_order(start: float | None, end: float | None) -> None:
    # No answer to it holds anything: it would look like a time in which nothing happened.
    if start is not None and end is not None and start > end:
        raise HTTPException(400, "start: lies after end")


def _history(context: WebContext) -> HistoryReader:
    if context.history is None:
        raise HTTPException(503, "the service remembers nothing: it runs without history")
    return context.history


@contextmanager
def one_of(free: threading.BoundedSemaphore) -> Iterator[None]:
    """Answer one of `MOST_AT_ONCE` requests; further ones get status 503, as each would hold a thread of the others."""
    if not free.acquire(blocking=False):
        raise HTTPException(503, f"{MOST_AT_ONCE} such requests are being answered", {"Retry-After": "2"})
    try:
        yield
    finally:
        free.release()


def _all_open(context: WebContext) -> tuple[Incident, ...]:
    return context.service.board.read().incidents


def _open_ones(context: WebContext, state: State, deployment: str | None, end: float | None) -> list[Incident]:
    """Return the incidents that last, of which none can have ended before any time."""
    if state == "closed":
        return []
    return [
        one for one in _all_open(context) if deployment in (None, one.deployment) and (end is None or one.onset <= end)
    ]


def _story(incident: Incident) -> IncidentStory:
    return IncidentStory(incident=incident, changes=(), consequences=(), report=None, report_at=None)


PREFIX = "/api/v1"
LONGEST_WAIT = 30.0
MOST_WAITING = 256
Name = Annotated[str, Path(min_length=1, max_length=200, description="Name of the deployment.")]
CheckId = Annotated[str, Path(min_length=1, max_length=200, description="Id of the check.")]


def router(context: WebContext, live: Live) -> APIRouter:
    """Return what is under `/api/v1` about now."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[NOW])
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
        reported = {path: next(iter(methods.values())).get("summary", "") for path, methods in held.items()}
        return ApiIndex(version=__version__, openapi=f"{PREFIX}/openapi.json", paths=reported)


def _add_state(routes: APIRouter, context: WebContext, live: Live) -> None:
    @routes.get("/state", summary="State")
    async def state(
        after: Annotated[int, Query(ge=-1, description="A version. The answer waits for another one.")] = -1,
        wait: Annotated[
            float, Query(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Longest time to wait, in seconds.")
        ] = 0.0,
    ) -> ServiceState:
        """Return the newest state, as soon as it is not that of version `after`, at the latest after `wait`."""
        if wait and live.waiting >= MOST_WAITING:
            raise HTTPException(503, f"{MOST_WAITING} requests wait already", {"Retry-After": "5"})
        newest = await live.newer_than(after, wait) if wait else context.service.board.read()
        known = context.attention.acknowledgements()
        acknowledged = [known[one.id] for one in newest.incidents if one.id in known]
        return state_answer(newest, context.clock(), context.metrics.faults.lasting(), acknowledged)


def _add_deployments(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/deployments", summary="Deployments")
    async def deployments() -> list[DeploymentState]:
        """Return the newest verdict on each deployment."""
        state, now = context.service.board.read(), context.clock()
        return [deployment_state(state, name, now) for name in sorted(state.evaluations)]

    @routes.get("/deployments/{name}/explanation", summary="Explanation", responses=EXPLANATION, response_model=None)
    def explanation(name: Name, output: Written = Output.JSON, colour: Colour = False) -> Response:
        """Return the newest verdict on a deployment with all its evidence."""
        return rendered(_as_of_now(context, name), output, colour=colour)

    @routes.get("/deployments/{name}/checks/{check}", summary="Why, or why not")
    def why(name: Name, check: CheckId) -> WhyAnswer:
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
    reported = "; ".join(f"{one.server} {_away(one)}" for one in away)
    stale = f"Not current: {reported}. This is the last state that was read." if len(away) == len(targets) else ""
    return replace(found, blind_spots=(*spots, *found.blind_spots), stale=stale if away else "")


def _away(target: TargetState) -> str:
    since = f" since {time_text(target.last_success)}" if target.last_success is not None else ""
    return f"has not answered{since} ({target.error or 'no reason is known'})"


def _check(identifier: str) -> RegisteredCheck:
    found = catalogue().get(identifier)
    if found is None:
        hint = meant(identifier, catalogue()) or f"GET {PREFIX}/checks lists them"
        raise HTTPException(404, f"there is no check {identifier!r}; {hint}")
    return found
