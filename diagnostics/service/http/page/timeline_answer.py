"""A timeline that is asked for."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from diagnostics.evidence.evidence import Evidence
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.deployments import standing_of
from diagnostics.service.http.page.standing import Standing
from diagnostics.service.http.page.timelines import LONGEST, SHORTEST, Json, TimelineRange, models, remembered
from diagnostics.signals.subject import Subject

HOUR = 3600.0
Moment = Annotated[float | None, Field(ge=0, le=1e11)]


class TimelineQuery(BaseModel):
    """Which timeline: a model, the newest `since` seconds or the span from `from` to `to` in Unix seconds."""

    server: str = Field(default="", max_length=500)
    model: str = Field(default="", max_length=500)
    since: float = Field(default=HOUR, ge=SHORTEST, le=LONGEST)
    start: Moment = Field(default=None, alias="from")
    to: Moment = None


def answer(context: WebContext, name: str, asked: TimelineQuery) -> Json | None:
    """Return the timeline; None where nothing is remembered, or nothing of that name is watched.

    Raises:
        SQLAlchemyError: the history's database is away.

    """
    standing = standing_of(context, name)
    on = _subject(standing, asked) if standing is not None else None
    if context.history is None or on is None:
        return None
    span = _span(asked, on, context.clock())
    return remembered(context.history, name, span, _evidence(standing), context.service.board.read().started)


def _evidence(standing: Standing | None) -> Evidence | None:
    return standing.explanation.evidence if standing is not None and standing.explanation else None


def _subject(standing: Standing, asked: TimelineQuery) -> Subject | None:
    """Return the model that is asked for, of any server if none is named; the first one if no model is."""
    if asked.server and asked.model:
        return Subject(server=asked.server, model=asked.model)
    known = models(standing.explanation) if standing.explanation else ()
    return next((one for one in known if asked.model in ("", one.model)), None)


def _span(asked: TimelineQuery, on: Subject, now: float) -> TimelineRange:
    end = min(asked.to, now) if asked.to is not None else now
    start = asked.start if asked.start is not None else end - asked.since
    start = min(max(start, end - LONGEST), end - SHORTEST)
    return TimelineRange(server=on.server, model=on.model or "", start=start, end=end)
