"""What a change would do to a deployment, from its newest window: nothing is changed, and one is made at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse, Response

from diagnostics.diagnosis.proposal import Proposal
from diagnostics.diagnosis.proposing import ChangeRequest, SourceEvidence, proposed
from diagnostics.errors import CollectError, DiagError, UsageError
from diagnostics.evidence.evidence import WindowEvidence
from diagnostics.forecast.fitted import Unpredictable
from diagnostics.render.forecast.document import forecast_document
from diagnostics.render.forecast.json import forecast_report
from diagnostics.render.formats.markdown import write as as_markdown
from diagnostics.render.text import as_text
from diagnostics.service.http.api import ONLY_KNOWN, PREFIX, OfDeployment
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.openapi import FORECASTS, NOW, PROBLEMS
from diagnostics.service.http.problems import JsonAnswer

# A forecast takes some seconds of a processor, which the verdicts on what is live need more.
FORECASTS_AT_ONCE = 1
# Settings of one request: more than a patch of one model has (ours).
MOST_SETTINGS = 8
LONGEST_TEXT = 200
_free = threading.BoundedSemaphore(FORECASTS_AT_ONCE)


def forecast_of(context: WebContext, deployment: str, request: ChangeRequest) -> Proposal:
    """Return the forecast of a change, from what a deployment's newest verdict saw.

    Where settings were changed in that window, what was read since counts.

    Args:
        context: the service.
        deployment: its name.
        request: what shall change.

    Raises:
        UsageError: nothing is to change, or the request cannot be read, or names what is not there.
        CollectError: it was not judged yet, or another forecast is being made.
        Unpredictable: the evidence does not suffice; it says what to measure.

    """
    if not (request.settings or request.rate or request.clients or request.prompt_tokens or request.output_tokens):
        hint = "as in set=safety.instance_group.count=2"
        raise UsageError("say what to change", where="set, rate, clients", hint=hint)
    evaluation = context.service.board.read().evaluations.get(deployment)
    if evaluation is None:
        raise CollectError("was not judged yet", where=deployment, hint="ask again after two rounds of reads")
    stated = evaluation.explanation
    evidence = stated.latest or stated.evidence
    assert isinstance(evidence, WindowEvidence)
    with _in_turn():
        return proposed(SourceEvidence(evidence=evidence, window=stated.window), request)


@contextmanager
def _in_turn() -> Iterator[None]:
    if not _free.acquire(blocking=False):
        raise CollectError("another forecast is being made", hint="ask again in a few seconds")
    try:
        yield
    finally:
        _free.release()


def plainly(error: DiagError) -> str:
    """Return an error in words of the API: its parameters have no dashes before them."""
    return str(DiagError(error.what, where=error.where.replace("--", ""), hint=error.hint.replace("--", "")))


def _refusal(error: DiagError) -> HTTPException:
    """Return the answer instead: the request is wrong, too little was measured, or it is to be asked again."""
    if isinstance(error, UsageError):
        return HTTPException(400, plainly(error))
    if isinstance(error, Unpredictable):
        return HTTPException(422, plainly(error))
    return HTTPException(503, plainly(error), {"Retry-After": "5"})


class ForecastOutput(StrEnum):
    """How a forecast is written."""

    JSON = "json"
    TEXT = "text"
    MARKDOWN = "markdown"


Texts = Annotated[
    list[Annotated[str, Query(max_length=LONGEST_TEXT)]] | None,
    Query(
        max_length=MOST_SETTINGS,
        description="A setting as MODEL.SETTING=VALUE; none removes it. May be repeated.",
    ),
]


Rate = Annotated[str | None, Query(max_length=20, description="How much arrives: a multiple of now (2x), or 40/s.")]
Length = Annotated[
    str | None,
    Query(max_length=20, description="Tokens of an LLM engine's prompts or answers: a multiple (2x), or a mean."),
]


def what_if_router(context: WebContext) -> APIRouter:
    """Return `/api/v1/whatif`."""
    routes = APIRouter(prefix=PREFIX, responses=PROBLEMS, dependencies=ONLY_KNOWN, tags=[NOW])

    @routes.get("/whatif", summary="What a change would do", responses=FORECASTS, response_model=None)
    def whatif(
        deployment: OfDeployment,
        set: Texts = None,
        rate: Rate = None,
        clients: Annotated[
            int | None, Query(ge=1, le=100_000, description="How many clients wait for their answers.")
        ] = None,
        entry: Annotated[
            str | None, Query(max_length=200, description="The ensemble or model to forecast. The busiest by default.")
        ] = None,
        prompt_tokens: Length = None,
        output_tokens: Length = None,
        output: Annotated[ForecastOutput, Query(description="Form of the answer.")] = ForecastOutput.JSON,
    ) -> Response:
        """Forecast a change of settings or load from the newest window; nothing is changed. One is made at a time."""
        known = {**context.service.deployments, **context.service.board.read().evaluations}
        if deployment not in known:
            raise HTTPException(404, f"there is no deployment {deployment!r}")
        request = ChangeRequest(
            settings=tuple(set or ()),
            rate=rate,
            clients=clients,
            entry=entry,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        try:
            found = forecast_of(context, deployment, request)
        except DiagError as error:
            raise _refusal(error) from None
        match output:
            case ForecastOutput.JSON:
                return JsonAnswer(forecast_report(found))
            case ForecastOutput.TEXT:
                return PlainTextResponse(as_text(forecast_document(found)))
            case ForecastOutput.MARKDOWN:
                return PlainTextResponse(as_markdown(forecast_document(found)), media_type="text/markdown")

    return routes
