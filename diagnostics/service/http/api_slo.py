"""How the objectives stand, over the API."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse, Response

from diagnostics.diagnosis.incident import Incident
from diagnostics.render.slo.json import slo_report
from diagnostics.render.slo.text import slo_markdown, slo_text
from diagnostics.service.http.api import PREFIX
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.json_answer import JsonAnswer
from diagnostics.service.http.openapi import PROBLEMS, SLOS
from diagnostics.service.http.parameters import ONLY_KNOWN
from diagnostics.slo.slo import LONGEST_PERIOD, SHORTEST_PERIOD

_MOST_INCIDENTS = 1_000


class SloOutput(StrEnum):
    """How the report is written."""

    JSON = "json"
    TEXT = "text"
    MARKDOWN = "markdown"


def router(context: WebContext) -> APIRouter:
    """Return `/api/v1/slos`."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN)

    @routes.get("/slos", summary="Objectives", responses=SLOS, response_model=None)
    def slos(
        period: Annotated[
            float | None,
            Query(ge=SHORTEST_PERIOD, le=LONGEST_PERIOD, allow_inf_nan=False, description="Seconds of budget."),
        ] = None,
        name: Annotated[list[str] | None, Query(max_length=100, description="Of these objectives only.")] = None,
        output: SloOutput = SloOutput.JSON,
    ) -> Response:
        """Return how the objectives stand: budgets, burn rates, forecasts, and what took the budgets."""
        keeper = context.objectives
        known = {slo.name: slo for slo in keeper.slos} if keeper is not None else {}
        missing = [one for one in name or () if one not in known]
        if missing:
            raise HTTPException(404, f"the service counts no objective {missing[0]!r}: add it to its settings")
        since = context.clock() - (period or max((slo.period for slo in known.values()), default=0.0))
        reports = keeper.reports(period, _incidents(context, since)) if keeper is not None else []
        chosen = [one for one in reports if name is None or one.slo.name in name]
        match output:
            case SloOutput.JSON:
                return JsonAnswer(slo_report(chosen))
            case SloOutput.TEXT:
                return PlainTextResponse(slo_text(chosen))
            case SloOutput.MARKDOWN:
                return PlainTextResponse(slo_markdown(chosen), media_type="text/markdown")

    return routes


def _incidents(context: WebContext, since: float) -> list[Incident]:
    if context.history is None:
        return list(context.service.board.read().incidents)
    return context.history.incidents(since=since, limit=_MOST_INCIDENTS)
