"""Logs every incident that opens, changes its severity or cause, and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import NamedTuple

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.service.log_lines import Field, LoggedEvent, log_event
from diagnostics.service.state import Evaluation

log = logging.getLogger(__name__)


class _Logged(NamedTuple):
    severity: Severity
    caused_by: str | None


class IncidentLog:
    """A consumer of verdicts. For use by one thread."""

    def __init__(self, resumed: Iterable[Incident] = ()) -> None:
        """Begin; `resumed` are the open incidents of an earlier run, which logged that they opened."""
        self._known = {one.id: _Logged(one.severity, one.caused_by) for one in resumed}

    def consume(self, evaluation: Evaluation) -> None:
        """Log what a verdict changes."""
        for change in evaluation.changes:
            self._log(change.incident)

    def _log(self, incident: Incident) -> None:
        before = self._known.get(incident.id)
        now = _Logged(incident.severity, incident.caused_by)
        if not incident.open:
            self._known.pop(incident.id, None)
            _event(LoggedEvent.INCIDENT_ENDED, f"incident ended: {incident.title}", incident, **_end(incident))
        elif before is None:
            self._known[incident.id] = now
            since: dict[str, Field] = {"onset": incident.onset, "summary": incident.summary}
            _event(LoggedEvent.INCIDENT_OPENED, f"incident opened: {incident.title}", incident, **since)
        elif before != now:
            self._known[incident.id] = now
            message = f"incident changed{_from_to(before, now)}: {incident.title}"
            _event(LoggedEvent.INCIDENT_CHANGED, message, incident, **_changed(before, now))


def _from_to(before: _Logged, now: _Logged) -> str:
    same = before.severity is now.severity
    return "" if same else f" from {before.severity.value} to {now.severity.value}"


def _changed(before: _Logged, now: _Logged) -> dict[str, Field]:
    changed: dict[str, Field] = {}
    if before.severity is not now.severity:
        changed["severity_before"] = before.severity.value
    if before.caused_by != now.caused_by:
        changed["caused_by_before"] = before.caused_by or "none"
    return changed


def _end(incident: Incident) -> dict[str, Field]:
    return {
        "reason": incident.ending.value if incident.ending else None,
        "reason_text": incident.ending.reported if incident.ending else None,
        "duration_seconds": round((incident.closed or incident.opened) - incident.opened, 3),
        "severity_max": incident.worst.value,
    }


def _event(event: LoggedEvent, message: str, incident: Incident, **fields: Field) -> None:
    subject = {name: value for name, value in incident.subject.to_dict().items() if value}
    known: dict[str, Field] = {
        "incident": incident.id,
        "deployment": incident.deployment,
        **subject,
        "check": incident.check,
        "severity": incident.severity.value,
        "caused_by": incident.caused_by,
    }
    log_event(log, event, message, **{**known, **fields})
