"""The JSON API: the newest state, and the past."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from diagnostics.service.http.answers import State, state_answer
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.live import Live

PREFIX = "/api/v1"
LONGEST_WAIT = 30.0


def router(context: WebContext, live: Live) -> APIRouter:
    """Return everything under `/api/v1`."""
    routes = APIRouter(prefix=PREFIX)

    @routes.get("/state")
    async def state(
        after: Annotated[int, Query(ge=-1, description="A version; the answer waits for another one.")] = -1,
        wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for it.")] = 0.0,
    ) -> State:
        """Return the newest state, as soon as it is not that of version `after`."""
        return state_answer(await live.newer_than(after, wait), context.clock())

    return routes
