"""What people told the service: which incidents they know of, when work is planned, and what happened elsewhere."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.service.log_lines import LoggedEvent, log_event
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import MaintenanceSettings
from diagnostics.store.journal import MOST_ENTRIES, JournalAction, JournalEntry
from diagnostics.units import utc

log = logging.getLogger(__name__)


class Attention:
    """For any thread. What was told is written into the journal, and logged."""

    def __init__(
        self,
        planned: Sequence[MaintenanceSettings] = (),
        earlier: Iterable[JournalEntry] = (),
        put: Callable[[JournalEntry], None] = lambda _: None,
    ) -> None:
        """Begin with the maintenance of the settings, and what an earlier run was told; `put` remembers an entry."""
        self._planned, self._put = planned, put
        self._lock = threading.Lock()
        self._entries = deque(earlier, MOST_ENTRIES)
        self._severities: dict[str, Severity] = {}

    def record(self, entry: JournalEntry) -> None:
        """Take up an entry."""
        with self._lock:
            self._entries.append(entry)
        self._put(entry)
        log_event(
            log,
            LoggedEvent.WRITTEN,
            f"{entry.who} wrote: {entry.action.value}",
            action=entry.action.value,
            who=entry.who,
            origin=entry.origin,
            deployment=entry.deployment,
            incident=entry.incident,
            kind=entry.kind,
            text=entry.text,
        )

    def entries(self, action: JournalAction | None = None, deployment: str | None = None) -> list[JournalEntry]:
        """Return what was told, the newest first: of one action, and about one deployment, where these are given."""
        with self._lock:
            every = list(self._entries)
        return [
            one
            for one in reversed(every)
            if action in (None, one.action) and (deployment is None or one.deployment in ("", deployment))
        ]

    def acknowledgement(self, incident: str) -> JournalEntry | None:
        """Return who knows of an incident; None while nobody said so."""
        found = (one for one in self.entries(JournalAction.ACKNOWLEDGE) if one.incident == incident)
        return next(found, None)

    def maintained(self, deployment: str, at: float) -> bool:
        """Return whether work on a deployment is planned at Unix second `at`."""
        entered = self.entries(JournalAction.MAINTENANCE, deployment)
        return any(one.start <= at < (one.end or one.start) for one in entered) or any(
            one.deployment in ("", deployment) and _within(one, at) for one in self._planned
        )

    def audible(self, evaluation: Evaluation) -> Evaluation:
        """Return a verdict with the changes that receivers are to know of.

        Ends always are. Incidents under maintenance are left out; so is what an incident that was acknowledged does,
        unless it becomes more severe than it was then.
        """
        quiet = self.maintained(evaluation.deployment, evaluation.at)
        changes = tuple(
            one for one in evaluation.changes if not one.incident.open or not (quiet or self._is_known(one.incident))
        )
        return replace(evaluation, changes=changes) if len(changes) < len(evaluation.changes) else evaluation

    def _is_known(self, incident: Incident) -> bool:
        if self.acknowledgement(incident.id) is None:
            return False
        return incident.severity.rank <= self._severities.setdefault(incident.id, incident.severity).rank


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def _within(planned: MaintenanceSettings, at: float) -> bool:
    now = utc(at)
    if planned.start is not None and planned.end is not None:
        return planned.start <= now < planned.end
    day, _, hours = planned.weekly.partition(" ")
    begin, end = (timedelta(hours=int(text[:2]), minutes=int(text[3:])) for text in hours.split("-"))
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    since = midnight - timedelta(days=(now.weekday() - _DAYS.index(day)) % 7)
    # A window that ends before it begins lasts into the next day, which may be the first of another week.
    lasts = (end - begin) % timedelta(days=1) or timedelta(days=1)
    return any(one + begin <= now < one + begin + lasts for one in (since, since - timedelta(days=7)))
