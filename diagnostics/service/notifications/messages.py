"""What was sent to a webhook or a chat channel, and what is still to be sent."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Any

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.service.notifications.delivery_log import log_message
from diagnostics.service.state import Evaluation
from exporters.sinks.webhook import IncidentEvent, message_id

MOST_WAITING = 1_000
# News that are older help nobody.
KEPT_FOR = 86_400.0
Json = dict[str, Any]
# Writes a message; there is no explanation where an incident goes on from, or ended in, an earlier run.
Compose = Callable[[IncidentEvent, Incident, Explanation | None], Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationFilter:
    """Which incidents a receiver is notified of.

    Attributes:
        least: incidents that were never as severe are left out.
        deployments: the deployments that count; empty for all.
        events: what is sent of an incident.
        consequences: whether incidents that another one causes count.

    """

    least: Severity = Severity.INFO
    deployments: frozenset[str] = frozenset()
    events: frozenset[IncidentEvent] = frozenset(IncidentEvent)
    consequences: bool = True

    def admits(self, incident: Incident) -> bool:
        """Return whether a receiver that does not know of an incident is to."""
        return (
            incident.worst.rank >= self.least.rank
            and (not self.deployments or incident.deployment in self.deployments)
            and (self.consequences or incident.caused_by is None)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookMessage:
    """One message; `at` is the Unix second at which it came up."""

    id: str
    at: float
    body: Json


EVERYTHING = NotificationFilter()


class MessageBook:
    """Compares what a webhook knows with what is so, so that nothing is sent twice or never. For any thread."""

    def __init__(
        self,
        compose: Compose,
        *,
        receiver: str = "",
        chosen: NotificationFilter = EVERYTHING,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._compose, self._receiver, self._chosen, self._clock = compose, receiver, chosen, clock
        self._lock = threading.Lock()
        self._waiting: deque[WebhookMessage] = deque()
        # By id: the severity that was sent, and the message that states the end if nobody else can.
        self._known: dict[str, tuple[str, Json]] = {}
        self._version = self._saved = 0
        self.dropped = 0

    def consume(self, evaluation: Evaluation) -> bool:
        """Take up what a verdict changes; return whether there is something new to send."""
        with self._lock:
            version = self._version
            for change in evaluation.changes:
                self._compare(change.incident, evaluation.explanation)
            return version != self._version

    def resume(self, incidents: Iterable[Incident], ending: Container[str] = ()) -> None:
        """Send what happened while nobody could: incidents that are open and unknown, or known and not open.

        Those whose ids are in `ending` are about to end: nothing else is sent about them.
        """
        with self._lock:
            found = {one.id: one for one in incidents}
            for identifier, (_, end) in list(self._known.items()):
                if identifier not in found:
                    self._notify_end(identifier, end)
            for incident in found.values():
                if incident.id not in ending:
                    self._compare(incident, None)
                elif incident.id not in self._known and self._chosen.admits(incident):
                    self._remember(incident)  # an earlier run told that it began

    def first(self) -> WebhookMessage | None:
        """Return the message that is next; None when there is none. Those that are too old are dropped."""
        with self._lock:
            while self._waiting and self._clock() - self._waiting[0].at > KEPT_FOR:
                self._drop(f"older than {KEPT_FOR:.0f} s")
            return self._waiting[0] if self._waiting else None

    def done(self, one: WebhookMessage, *, taken: bool) -> None:
        """Let go of a message that was taken, or that would never be."""
        with self._lock:
            if self._waiting and self._waiting[0] is one:
                self._waiting.popleft()
                self._version += 1
                self.dropped += not taken

    @property
    def waiting(self) -> int:
        """How many messages were not taken yet."""
        return len(self._waiting)

    def unsaved(self) -> bool:
        """Return whether something differs from what was saved."""
        with self._lock:
            return self._version != self._saved

    def save(self, write: Callable[[Json], None]) -> None:
        """Hand everything to `write`; where that raises, it counts as not saved."""
        with self._lock:
            version = self._version
            waiting = [{"id": one.id, "at": one.at, "body": one.body} for one in self._waiting]
            known = {name: {"severity": severity, "end": end} for name, (severity, end) in self._known.items()}
        write({"waiting": waiting, "known": known})
        with self._lock:
            self._saved = version

    def load(self, saved: Json) -> None:
        """Take up what an earlier run saved.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is not what `save` writes.

        """
        waiting = [
            WebhookMessage(id=str(one["id"]), at=float(one["at"]), body=dict(one["body"]))
            for one in saved.get("waiting", ())
        ]
        known = {
            str(name): (str(one["severity"]), dict(one["end"])) for name, one in dict(saved.get("known", {})).items()
        }
        with self._lock:
            self._waiting.extend(waiting)
            self._known |= known

    def _compare(self, incident: Incident, explanation: Explanation | None) -> None:
        known = self._known.get(incident.id)
        if known is None and not (incident.open and self._chosen.admits(incident)):
            return  # who was never told that it began need not know that it has ended
        if not incident.open:
            self._known.pop(incident.id, None)
            self._version += 1
            self._notify(IncidentEvent.CLOSED, incident, explanation)
            return
        if known is None:
            self._notify(IncidentEvent.OPENED, incident, explanation)
        elif known[0] != incident.severity.value:
            self._notify(IncidentEvent.SEVERITY_CHANGED, incident, explanation)
        else:
            return
        self._remember(incident)

    def _remember(self, incident: Incident) -> None:
        end = self._compose(IncidentEvent.CLOSED, replace(incident, closed=incident.seen), None)
        self._known[incident.id] = (incident.severity.value, end)
        self._version += 1

    def _notify(self, reported: IncidentEvent, incident: Incident, explanation: Explanation | None) -> None:
        if reported in self._chosen.events:
            self._put(message_id(reported, incident), self._compose(reported, incident, explanation))

    def _notify_end(self, identifier: str, end: Json) -> None:
        del self._known[identifier]
        if IncidentEvent.CLOSED in self._chosen.events:
            end["incident"]["closed"] = self._clock()
            self._put(f"{identifier}.{IncidentEvent.CLOSED.value}", end)

    def _put(self, identifier: str, body: Json) -> None:
        self._waiting.append(WebhookMessage(id=identifier, at=self._clock(), body=body))
        self._version += 1
        while len(self._waiting) > MOST_WAITING:
            self._drop(f"more than {MOST_WAITING} messages wait")

    def _drop(self, reason: str) -> None:
        log_message(self._receiver, self._waiting.popleft().body, dropped=reason)
        self._version += 1
        self.dropped += 1
