"""What the page of one incident shows."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError
from diagnostics.render.explanation.html import FindingView, told
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.deployments import Values, replayed
from diagnostics.service.state import LiveState


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An incident, its cause's, and those that it brought about."""

    incident: Incident
    cause: Incident | None
    consequences: tuple[Incident, ...]


def known(context: WebContext, identity: str) -> Known | None:
    """Return an incident that is open, or was; None when there is none.

    Raises:
        SQLAlchemyError: it is not open, and the database is away.

    """
    state = context.service.board.read()
    now = {one.id: one for one in state.incidents}
    if identity in now:
        caused = tuple(one for one in state.incidents if one.caused_by == identity)
        return Known(incident=now[identity], cause=now.get(now[identity].caused_by or ""), consequences=caused)
    story = context.history.incident(identity) if context.history is not None else None
    if context.history is None or story is None:
        return None
    cause = context.history.incident(story.incident.caused_by) if story.incident.caused_by else None
    return Known(incident=story.incident, cause=cause.incident if cause else None, consequences=story.consequences)


def values(context: WebContext, one: Known) -> Values:
    """Return what the template shows."""
    finding, at = _told(context, one.incident)
    return {
        "one": one.incident,
        "cause": one.cause,
        "consequences": one.consequences,
        "told": finding,
        "told_at": at,
        "remembers": context.history is not None,
    }


def _told(context: WebContext, incident: Incident) -> tuple[FindingView | None, float | None]:
    """Return its finding with evidence and patch: as it is now, else at its worst with Unix seconds, if known."""
    live = _live(context.service.board.read(), incident)
    if live is not None or context.history is None:
        return live, None
    at = incident.peak_at or incident.opened
    watched = context.service.deployments.get(incident.deployment)
    try:
        then = replayed(context, incident.deployment, at, watched.objective if watched else None)
    except CollectError:
        return None, None  # its bodies are gone; what the incident itself tells stays
    return _in(then, incident), at


def _live(state: LiveState, incident: Incident) -> FindingView | None:
    evaluation = state.evaluations.get(incident.deployment)
    return _in(evaluation.explanation, incident) if evaluation and incident.open else None


def _in(explanation: Explanation, incident: Incident) -> FindingView | None:
    return next((one for one in told(explanation) if one.finding.id == incident.fingerprint), None)
