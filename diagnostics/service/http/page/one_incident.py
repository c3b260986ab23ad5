"""One incident, that lasts or is over: its cause, its consequences, and its finding with evidence and patch."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.errors import CollectError
from diagnostics.render.explanation.html import FindingView, reported
from diagnostics.service.http.context import WebContext
from diagnostics.service.http.page.deployments import Values, replayed


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An incident, its cause's, and those that it brought about."""

    incident: Incident
    cause: Incident | None
    consequences: tuple[Incident, ...]


def known_incident(context: WebContext, identity: str) -> Known | None:
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


def incident_values(context: WebContext, one: Known) -> Values:
    """Return what the template shows."""
    finding, at = _reported(context, one.incident)
    return {
        "one": one.incident,
        "cause": one.cause,
        "consequences": one.consequences,
        "acknowledged": context.attention.acknowledgement(one.incident.id),
        "reported": finding,
        "reported_at": at,
        "remembers": context.history is not None,
    }


def _reported(context: WebContext, incident: Incident) -> tuple[FindingView | None, float | None]:
    """Return its finding with evidence and patch: as it is now, else at its worst with Unix seconds, if known."""
    explanation, at = explanation_of(context, incident)
    return (_in(explanation, incident) if explanation is not None else None), at


def explanation_of(context: WebContext, incident: Incident) -> tuple[Explanation | None, float | None]:
    """Return the newest verdict while it names an incident, else that on its worst moment, with its Unix second.

    None where that is not remembered, or cannot be read any more.
    """
    evaluation = context.service.board.read().evaluations.get(incident.deployment)
    if evaluation is not None and incident.open and _in(evaluation.explanation, incident) is not None:
        return evaluation.explanation, None
    if context.history is None:
        return None, None
    at = incident.peak_at or incident.opened
    watched = context.service.deployments.get(incident.deployment)
    try:
        return replayed(context, incident.deployment, at, watched.objective if watched else None), at
    except CollectError:
        return None, None  # its bodies are gone; what the incident itself tells stays


def _in(explanation: Explanation, incident: Incident) -> FindingView | None:
    return next((one for one in reported(explanation) if one.finding.id == incident.fingerprint), None)
