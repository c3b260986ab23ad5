"""Which alerts fire now, and which have ended that not every Alertmanager knows of."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from diagnostics.checks.check import Severity
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Ending, Incident, concerns
from diagnostics.render import phrases
from diagnostics.service.notifications.delivery_log import log_alert
from diagnostics.service.state import Evaluation
from exporters.sinks.alertmanager import IncidentAlert, Key, incident_alert
from exporters.sinks.links import Links

# How long Prometheus repeats that an alert has ended: an Alertmanager that restarts meanwhile has forgotten it.
REPEATED_FOR = 15 * 60.0
# How long Alertmanager remembers whom it notified: later it would notify nobody of the end.
FORGOTTEN_AFTER = 120 * 3600.0
MOST_ENDED = 10_000
Json = dict[str, Any]


@dataclass(slots=True)
class Ended:
    """An alert that has ended, and the receivers that took the news."""

    alert: IncidentAlert
    taken_by: set[str] = field(default_factory=set)


class AlertBook:
    """The state that is sent, the same for every Alertmanager. For any thread.

    Only what has ended needs to survive a restart: what fires is sent again from the incidents that are open.
    """

    def __init__(
        self,
        links: Links,
        receivers: Iterable[str],
        *,
        least: Severity = Severity.WARNING,
        labels: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin with nothing firing.

        Args:
            links: addresses of the service's pages.
            receivers: names of the Alertmanagers.
            least: incidents that were never as severe send no alert.
            labels: added to every alert.
            clock: Unix seconds.

        """
        self._links, self._receivers, self._least = links, frozenset(receivers), least
        self._added, self._clock = labels or {}, clock
        self._lock = threading.Lock()
        self._open: dict[str, Incident] = {}
        self._firing: dict[str, IncidentAlert] = {}
        self._unsaid: set[str] = set()
        self._ended: dict[Key, Ended] = {}
        self._version = self._saved = 0
        self.dropped = 0

    def consume(self, evaluation: Evaluation) -> bool:
        """Take up what a verdict changes; return whether an alert began or ended."""
        findings = {finding.id: finding for finding in evaluation.explanation.findings}
        with self._lock:
            before = {name: alert.key for name, alert in self._firing.items()}
            for change in evaluation.changes:
                if change.incident.open:
                    self._open[change.incident.id] = change.incident
            for change in evaluation.changes:
                changed = _changed(evaluation, change.incident)
                if change.incident.open:
                    finding = findings.get(change.incident.fingerprint)
                    felt = phrases.felt(evaluation.explanation, finding, change.incident.subject)
                    self._fire(change.incident, finding, changed, felt, _address(evaluation, change.incident))
                else:
                    self._end(change.incident, changed)
            return before != {name: alert.key for name, alert in self._firing.items()}

    def resume(self, incidents: Iterable[Incident], ending: Container[str] = ()) -> None:
        """Let incidents of an earlier run fire again, before there is a verdict.

        Those whose ids are in `ending` are about to end: only that is sent.
        """
        with self._lock:
            found = list(incidents)
            self._open.update({one.id: one for one in found})
            self._unsaid = {one.id for one in found if one.id in ending}
            for incident in found:
                self._fire(incident, None, "")

    def current(self) -> Sequence[tuple[IncidentAlert, frozenset[str]]]:
        """Return what is to be known now, with the names of those who know already that it has ended."""
        with self._lock:
            self._forget()
            ended = [(one.alert, frozenset(one.taken_by)) for one in self._ended.values()]
            firing = [alert for name, alert in self._firing.items() if name not in self._unsaid]
            return [*((alert, frozenset[str]()) for alert in firing), *ended]

    def taken(self, receiver: str, alerts: Iterable[IncidentAlert]) -> bool:
        """Note that a receiver took these alerts; return whether that is worth saving."""
        with self._lock:
            version = self._version
            for alert in alerts:
                ended = self._ended.get(alert.key) if alert.ended is not None else None
                if ended is not None and ended.alert.ended == alert.ended and receiver not in ended.taken_by:
                    ended.taken_by.add(receiver)
                    self._version += 1
            return version != self._version

    @property
    def waiting(self) -> int:
        """How many alerts have ended without every receiver knowing."""
        with self._lock:
            return sum(one.taken_by < self._receivers for one in self._ended.values())

    def unsaved(self) -> bool:
        """Return whether what has ended differs from what was saved."""
        with self._lock:
            return self._version != self._saved

    def save(self, write: Callable[[Json], None]) -> None:
        """Hand what has ended to `write`; where that raises, it counts as not saved."""
        with self._lock:
            version, entries = self._version, [_entry(one) for one in self._ended.values()]
        write({"ended": entries})
        with self._lock:
            self._saved = version

    def load(self, saved: Json) -> None:
        """Take up what an earlier run saved.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: it is not what `save` writes.

        """
        with self._lock:
            for entry in saved.get("ended", ()):
                one = _ended(entry)
                self._ended[one.alert.key] = one

    def _fire(
        self, incident: Incident, finding: Finding | None, changed: str, felt: str = "", address: str = ""
    ) -> None:
        if incident.worst.rank < self._least.rank:
            return
        cause = self._open.get(incident.caused_by or "")
        alert = incident_alert(incident, finding, cause, self._links, self._added, changed, felt, address)
        before = self._firing.get(incident.id)
        if before is not None and before.key != alert.key:
            # The severity is a label: the alert with the old one ends as that with the new one begins.
            reason = f"its severity is {incident.severity.value} now"
            self._ended[before.key] = Ended(before.close(self._clock(), reason))
            self._version += 1
        self._firing[incident.id] = alert
        # The same labels: the end of the last time would end this one.
        if self._ended.pop(alert.key, None) is not None:
            self._version += 1

    def _end(self, incident: Incident, changed: str) -> None:
        self._open.pop(incident.id, None)
        alert = self._firing.pop(incident.id, None)
        if alert is not None:
            self._ended.pop(alert.key, None)
            because = incident.ending.reported if incident.ending else ""
            if incident.ending is Ending.CHANGED and changed:
                because = f"{because}: {changed}"
            self._ended[alert.key] = Ended(alert.close(incident.closed or self._clock(), because))
            self._version += 1

    def _forget(self) -> None:
        now = self._clock()
        for key, one in list(self._ended.items()):
            age = now - (one.alert.ended or now)
            if age > FORGOTTEN_AFTER or (age > REPEATED_FOR and one.taken_by >= self._receivers):
                self._drop(key, f"older than {FORGOTTEN_AFTER:.0f} s")
                self._version += 1
        while len(self._ended) > MOST_ENDED:
            self._drop(next(iter(self._ended)), f"more than {MOST_ENDED} alerts have ended")
            self.dropped += 1
            self._version += 1

    def _drop(self, key: Key, reason: str) -> None:
        one = self._ended.pop(key)
        for receiver in sorted(self._receivers - one.taken_by):
            log_alert(receiver, one.alert, dropped=reason)


def _entry(one: Ended) -> Json:
    alert = one.alert
    return {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "starts_at": alert.starts_at,
        "ended": alert.ended,
        "url": alert.url,
        "taken_by": sorted(one.taken_by),
    }


def _ended(entry: Json) -> Ended:
    texts = {name: {str(key): str(text) for key, text in entry[name].items()} for name in ("labels", "annotations")}
    alert = IncidentAlert(
        labels=texts["labels"],
        annotations=texts["annotations"],
        starts_at=float(entry["starts_at"]),
        ended=float(entry["ended"]),
        url=str(entry["url"]),
    )
    return Ended(alert, set(map(str, entry["taken_by"])))


def _changed(evaluation: Evaluation, incident: Incident) -> str:
    """Return the changes of settings in the verdict's window that concern an incident, as one text."""
    explanation = evaluation.explanation
    about = tuple(made for made in explanation.changes if concerns(incident, *made))
    return "; ".join(phrases.changes_reported(about))


def _address(evaluation: Evaluation, incident: Incident) -> str:
    return evaluation.explanation.window.addresses.get(incident.subject.server, "")
