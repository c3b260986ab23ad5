"""The JSON API of the past: incidents, any moment judged again, timelines."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import Response

from diagnostics.diagnosis.incident import Incident
from diagnostics.service.http.api import PREFIX
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.openapi import EXPLANATION, PROBLEMS
from diagnostics.service.http.parameters import ONLY_KNOWN
from diagnostics.service.http.rendering import Output, rendered
from diagnostics.store.downsample import KEPT
from diagnostics.store.reader import Bucket, HistoryReader, IncidentStory, PastVerdict, State

# Judging the past anew takes seconds of a processor.
MOST_AT_ONCE = 2
A_DAY = 86400.0
LONGEST_WINDOW = A_DAY
MOST_POINTS = 2_000
_LAST_SECOND = 253_402_300_799.0  # of the year 9999
Second = Annotated[float, Query(ge=0, le=_LAST_SECOND, allow_inf_nan=False, description="Unix seconds.")]
Named = Annotated[str, Query(min_length=1, max_length=200)]


def router(context: WebContext) -> APIRouter:
    """Return what is under `/api/v1` about the past."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN)
    _add_incidents(routes, context)
    _add_explain(routes, context)
    _add_timelines(routes, context)
    return routes


def _add_incidents(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/incidents", summary="Incidents")
    def incidents(
        state: State = "any",
        deployment: Named | None = None,
        start: Second | None = None,
        end: Second | None = None,
        limit: Annotated[int, Query(ge=1, le=1_000)] = 100,
    ) -> list[Incident]:
        """Return the incidents that lasted at some time between `start` and `end`, the newest first."""
        _check_order(start, end)
        if context.history is None:
            found = _open_ones(context, state, deployment, end)
            return sorted(found, key=lambda one: (-one.opened, one.id))[:limit]
        return context.history.incidents(state=state, deployment=deployment, since=start, until=end, limit=limit)

    @routes.get("/incidents/{identity}", summary="An incident")
    def incident(identity: Annotated[str, Path(min_length=1, max_length=64)]) -> IncidentStory:
        """Return an incident with all that is known of it."""
        found = context.history.incident(identity) if context.history is not None else None
        found = found or next((_story(one) for one in _all_open(context) if one.id == identity), None)
        if found is None:
            raise HTTPException(404, f"there is no incident {identity!r}")
        return found


def _add_explain(routes: APIRouter, context: WebContext) -> None:
    free = threading.BoundedSemaphore(MOST_AT_ONCE)

    @routes.get("/explain", summary="A moment of the past", responses=EXPLANATION, response_model=None)
    def explain(
        deployment: Named,
        at: Second | None = None,
        since: Annotated[float, Query(gt=0, le=LONGEST_WINDOW, allow_inf_nan=False, description="Seconds.")] = 300.0,
        output: Output = Output.JSON,
    ) -> Response:
        """Return the verdict on the `since` seconds before `at`, by default now."""
        history = _history(context)
        known = context.service.deployments.get(deployment)
        moment = context.clock() if at is None else at
        with _one_of(free):
            said = history.explain_at(deployment, moment, since, known.objective if known else None)
            if not said.window.end:
                raise HTTPException(404, f"nothing was recorded of {deployment!r} in that time")
            return rendered(said, output)


def _add_timelines(routes: APIRouter, context: WebContext) -> None:
    @routes.get("/verdicts", summary="Verdicts over time")
    def verdicts(
        deployment: Named,
        start: Second | None = None,
        end: Second | None = None,
        limit: Annotated[int, Query(ge=1, le=MOST_POINTS)] = MOST_POINTS,
    ) -> list[PastVerdict]:
        """Return what was said of a deployment between `start` (by default a day ago) and `end` (now)."""
        return _history(context).verdicts(deployment, *_span(context, start, end), limit)

    @routes.get("/signals", summary="A signal over time")
    def signals(
        deployment: Named,
        server: Named,
        model: Named,
        signal: Named,
        version: Named | None = None,
        start: Second | None = None,
        end: Second | None = None,
        step: Annotated[float, Query(ge=60, le=7 * 86400, allow_inf_nan=False, description="Seconds.")] = 60.0,
    ) -> list[Bucket]:
        """Return a signal of a model in steps, between `start` (by default a day ago) and `end` (now)."""
        if signal not in KEPT:
            raise HTTPException(404, f"{signal!r} is not kept; {', '.join(KEPT)} are")
        first, last = _span(context, start, end)
        return _history(context).signals(
            deployment, signal, first, last, server=server, model=model, version=version, step=step, limit=MOST_POINTS
        )


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
def _one_of(free: threading.BoundedSemaphore) -> Iterator[None]:
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
