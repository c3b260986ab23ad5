"""What people entered: which incidents they know of, when work is planned, and what happened elsewhere.

Beside it stand the deploys that the service saw by itself.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.incident import Incident
from diagnostics.service.log_lines import LoggedEvent, log_event
from diagnostics.service.state import Evaluation
from diagnostics.settings.tree import MaintenanceSettings
from diagnostics.store.journal import MOST_ENTRIES, MOST_OBSERVED, JournalAction, JournalEntry

log = logging.getLogger(__name__)


# Of one timeline: a deploy each quarter of an hour for a day.
MOST_MARKS = 100
# Two reads may date the same load by as much as their interval.
SAME_SECONDS = 60.0


class TimelineMark(NamedTuple):
    """What somebody entered about a time: a deploy, or planned work. Unix seconds; `end` None for a moment."""

    kind: str
    text: str
    start: float
    end: float | None


class Attention:
    """For any thread. Entries are written into the journal, and logged."""

    def __init__(
        self,
        planned: Sequence[MaintenanceSettings] = (),
        earlier: Iterable[JournalEntry] = (),
        put: Callable[[JournalEntry], None] = lambda _: None,
    ) -> None:
        """Begin with the maintenance of the settings, and the entries of an earlier run; `put` remembers an entry."""
        self._planned, self._put = planned, put
        self._lock = threading.Lock()
        known = list(earlier)
        # Apart, as deploys are many: they must not push out who knows of what, and when nobody is to be notified.
        apart = (JournalAction.EVENT, JournalAction.OBSERVED)
        self._events = deque((one for one in known if one.action is JournalAction.EVENT), MOST_ENTRIES)
        self._observed = deque((one for one in known if one.action is JournalAction.OBSERVED), MOST_OBSERVED)
        self._entries = deque((one for one in known if one.action not in apart), MOST_ENTRIES)
        self._severities: dict[str, Severity] = {}

    def record(self, entry: JournalEntry) -> None:
        """Take up an entry."""
        with self._lock:
            (self._events if entry.action is JournalAction.EVENT else self._entries).append(entry)
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

    def observe(self, entry: JournalEntry) -> None:
        """Take up what the service saw.

        What was seen of the same kind and origin less than a minute before or after is the same: of two texts the
        longer one stays, which names more models.
        """
        with self._lock:
            known = next((at for at, one in enumerate(self._observed) if _same(one, entry)), None)
            if known is None:
                self._observed.append(entry)
            elif len(entry.text) > len(self._observed[known].text):
                entry = self._observed[known] = replace(self._observed[known], text=entry.text)
            else:
                return
        self._put(entry)
        named = {"deployment": entry.deployment, "kind": entry.kind, "text": entry.text}
        log_event(log, LoggedEvent.OBSERVED, f"seen: {entry.text}", **named)

    def events(self, deployment: str | None = None) -> list[JournalEntry]:
        """Return what happened elsewhere, as people wrote it and as it was seen, the newest first."""
        with self._lock:
            observed = [one for one in self._observed if deployment in (None, one.deployment)]
        written = self.entries(JournalAction.EVENT, deployment)
        return sorted([*observed, *written], key=lambda one: one.start, reverse=True)

    def entries(self, action: JournalAction | None = None, deployment: str | None = None) -> list[JournalEntry]:
        """Return the entries of people, the newest first: of one action or one deployment where given."""
        with self._lock:
            every = [*self._events] if action in (None, JournalAction.EVENT) else []
            every += self._entries if action is not JournalAction.EVENT else ()
        if action is None:
            every.sort(key=lambda one: one.at)
        return [
            one
            for one in reversed(every)
            if action in (None, one.action) and (deployment is None or one.deployment in ("", deployment))
        ]

    def acknowledgements(self) -> dict[str, JournalEntry]:
        """Return who said last to know of an incident, by the incident's id."""
        return {one.incident: one for one in reversed(self.entries(JournalAction.ACKNOWLEDGE))}

    def acknowledgement(self, incident: str) -> JournalEntry | None:
        """Return who knows of an incident; None while nobody said so."""
        return self.acknowledgements().get(incident)

    def maintained(self, deployment: str, at: float) -> bool:
        """Return whether work on a deployment is planned at Unix second `at`."""
        entered = self.entries(JournalAction.MAINTENANCE, deployment)
        return any(one.start <= at < (one.end or one.start) for one in entered) or any(
            start <= at < end for start, end in self._occurrences(deployment, at, at)
        )

    def marks(self, deployment: str, start: float, end: float) -> list[TimelineMark]:
        """Return what is drawn on a deployment's timelines between two Unix seconds: deploys and maintenance, by time.

        Of more than `MOST_MARKS` the newest are returned.
        """
        found = [TimelineMark("maintenance", "planned", *times) for times in self._occurrences(deployment, start, end)]
        stated = (*self.events(deployment), *self.entries(JournalAction.MAINTENANCE, deployment))
        found += [
            TimelineMark(one.kind or one.action.value, one.text, one.start, one.end)
            for one in stated
            if one.start <= end and start <= (one.end or one.start)
        ]
        return sorted(found, key=lambda one: one.start)[-MOST_MARKS:]

    def _occurrences(self, deployment: str, start: float, end: float) -> Iterator[tuple[float, float]]:
        """Yield from when to when work on a deployment is planned by the settings, as far as it overlaps a time."""
        for planned in self._planned:
            if planned.deployment in ("", deployment):
                yield from (times for times in _times_of(planned, start, end) if times[0] <= end and start <= times[1])

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


def _same(one: JournalEntry, other: JournalEntry) -> bool:
    same = (one.deployment, one.kind, one.origin) == (other.deployment, other.kind, other.origin)
    return same and abs(one.start - other.start) < SAME_SECONDS


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


_DAY, _WEEK = 86400.0, 7 * 86400.0
_THURSDAY = 3  # Unix time began on one


def _times_of(planned: MaintenanceSettings, start: float, end: float) -> Iterator[tuple[float, float]]:
    """Yield from when to when work is planned, Unix seconds; of weekly work each time around the ones given."""
    if planned.start is not None and planned.end is not None:
        yield planned.start.timestamp(), planned.end.timestamp()
        return
    day, _, hours = planned.weekly.partition(" ")
    begin, until = (int(text[:2]) * 3600.0 + int(text[3:]) * 60.0 for text in hours.split("-"))
    # A window that ends before it begins lasts into the next day, which may be the first of another week.
    lasts = (until - begin) % _DAY or _DAY
    first = (_DAYS.index(day) - _THURSDAY) * _DAY + begin
    at = first + (start - lasts - first) // _WEEK * _WEEK
    while at <= end:
        yield at, at + lasts
        at += _WEEK
