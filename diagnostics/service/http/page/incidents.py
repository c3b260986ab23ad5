"""Incidents to choose from: now and, where there is a history, before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.store.reader import HistoryReader, State

STATES = ("any", "open", "closed")
# Rows of a page; what is looked through to fill it.
SHOWN, LOOKED_THROUGH = 200, 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """Which incidents are asked for; empty takes all."""

    text: str = ""
    state: str = "any"
    deployment: str = ""
    check: str = ""
    severity: str = ""

    def fits(self, incident: Incident) -> bool:
        """Return whether an incident is among them."""
        states = {"open": incident.open, "closed": not incident.open}
        return (
            states.get(self.state, True)
            and self.deployment in ("", incident.deployment)
            and self.check in ("", incident.check)
            and self.severity in ("", (incident.severity if incident.open else incident.worst).value)
            and all(word in _searched(incident) for word in self.text.casefold().split())
        )


def _searched(incident: Incident) -> str:
    subject = (value for value in incident.subject.to_dict().values() if value)
    parts = (incident.id, incident.check, incident.title, incident.summary, incident.deployment, *subject)
    return " ".join(parts).casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentList:
    """Incidents, the newest first; whether there are more; why the history could not be asked (empty: it could)."""

    incidents: tuple[Incident, ...]
    more: bool = False
    trouble: str = ""


def find(
    past: HistoryReader | None, now: Sequence[Incident], wanted: IncidentFilter, most: int = SHOWN
) -> IncidentList:
    """Return the incidents wanted; only those of `now`, which are open, without a history."""
    trouble, before = "", tuple[Incident, ...]()
    if past is not None and wanted.state != "open":
        try:
            before = _before(past, wanted, most)
        except SQLAlchemyError:
            trouble = "The history's database cannot be read now; only what is open is listed."
    found = [one for one in _merged(now, before) if wanted.fits(one)]
    return IncidentList(incidents=tuple(found[:most]), more=len(found) > most, trouble=trouble)


def _before(past: HistoryReader, wanted: IncidentFilter, most: int) -> tuple[Incident, ...]:
    plain = not (wanted.text or wanted.check or wanted.severity)
    state: State = "closed" if wanted.state == "closed" else "any"
    limit = most + 1 if plain else LOOKED_THROUGH
    return tuple(past.incidents(state=state, deployment=wanted.deployment or None, limit=limit))


def _merged(now: Sequence[Incident], before: Sequence[Incident]) -> Iterator[Incident]:
    """Yield each incident once, as it is now, the newest first."""
    every = {one.id: one for one in (*before, *now)}
    yield from sorted(every.values(), key=lambda one: (-one.opened, one.id))


SEVERITIES = tuple(severity.value for severity in (Severity.CRITICAL, Severity.WARNING, Severity.INFO))
