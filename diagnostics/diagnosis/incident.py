"""Incidents: one cause of one subject from its onset to its end, across many windows.

A window's explanation is a photograph; an incident is the film. It opens when a finding has stayed for some
evaluations, so that one odd window alarms nobody, and closes when the finding has been gone for a while in windows that
could have shown it. What could not be judged neither opens nor closes anything, but that an outage is over is seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from diagnostics.checks.check import Layer, Quiet, Severity
from diagnostics.diagnosis.explanation import Explanation, Verdict
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.last_traffic import LastTraffic
from diagnostics.diagnosis.link import OUTAGE
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.units import Limit, Unit
from diagnostics.window.lifecycle import ServerChange as Setting

# Verdicts of windows in which an absent finding means that its cause is gone.
JUDGED = frozenset({Verdict.HEALTHY, Verdict.DEGRADED, Verdict.IDLE})
# Verdicts by the settings of now, whose check could decide, that must not show a cause after its settings were changed:
# one may be luck, and what waited before the change is done with in the second.
ROUNDS_TO_END = 2


class IncidentTransition(StrEnum):
    """What happened to an incident in one evaluation."""

    OPENED = "opened"
    UPDATED = "updated"
    CLOSED = "closed"


class Ending(StrEnum):
    """Why an incident ended."""

    GONE = "gone"
    UNWATCHED = "unwatched"
    CHANGED = "changed"
    TRAFFIC_ENDED = "traffic-ended"
    LITTLE_TRAFFIC = "little-traffic"

    @property
    def reported(self) -> str:
        """The reason in words, as the end of a sentence."""
        return _REPORTED[self]


_REPORTED = {
    Ending.GONE: "the cause is gone",
    Ending.UNWATCHED: "the settings no longer name its deployment",
    Ending.CHANGED: "the cause is gone since its settings were changed",
    Ending.TRAFFIC_ENDED: "its traffic ended; whether the cause is gone shows when requests come again",
    Ending.LITTLE_TRAFFIC: "too few requests come to show whether the cause is gone",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One cause of one subject. Times are Unix seconds.

    Attributes:
        id: unique over all time; kept across restarts.
        fingerprint: the finding's `id`, the same whenever this cause returns to this subject.
        deployment: whose servers it was seen on.
        check: the cause.
        title: the cause in words.
        layer: where it lies.
        subject: what it is about.
        severity: raised after as many evaluations in a row as open an incident, lowered after `LOWER_AFTER`.
        worst: the highest severity it had.
        confidence: of the newest evaluation that showed it.
        summary: of the newest evaluation that showed it.
        onset: when the fault began, dated by the finding, else when it was first seen.
        opened: when it was confirmed.
        seen: when it was last seen.
        closed: when it ended, not before `opened` whatever the clock did; that of the last request where its traffic
            ended; None while it lasts.
        ending: why it ended; None while it lasts, and where that was not noted.
        seconds_per_request: what it costs now.
        share_of_latency: of the newest evaluation, 0 to 1.
        share_of_requests_failed: of the newest evaluation, 0 to 1.
        peak: the largest `harm` (share of latency or of requests failed) it had, 0 to 1.
        peak_at: when that was.
        caused_by: the id of the incident that this one is a consequence of; None for a root.

    """

    id: str
    fingerprint: str
    deployment: str
    check: str
    title: str
    layer: Layer
    subject: Subject
    severity: Severity
    worst: Severity
    confidence: float
    summary: str
    onset: float
    opened: float
    seen: float
    closed: float | None = None
    ending: Ending | None = None
    seconds_per_request: float = 0.0
    share_of_latency: float = 0.0
    share_of_requests_failed: float = 0.0
    peak: float = 0.0
    peak_at: float = 0.0
    caused_by: str | None = None

    @property
    def open(self) -> bool:
        """Whether it lasts."""
        return self.closed is None

    @property
    def harm(self) -> float:
        """The larger of the two shares, as of the newest evaluation that showed it."""
        return max(self.share_of_latency, self.share_of_requests_failed)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentChange:
    """One incident and what just happened to it."""

    kind: IncidentTransition
    incident: Incident


LOWER_AFTER = Limit(
    value=300.0,
    unit=Unit.SECONDS,
    because="a severity is lowered only after a whole window of the default length without it, as its newest round may "
    "still be the exception (ours; kube-prometheus keeps alerts firing as long)",
)


@dataclass(slots=True)
class _LowerSpell:
    """A while in which a finding was less severe than its incident: its seconds, and the most severe it was."""

    severity: Severity
    seconds: float = 0.0


@dataclass(slots=True)
class _Candidate:
    """A finding that has not stayed long enough to be an incident."""

    first_seen: float
    times: int = 1


class IncidentBook:
    """The incidents of one deployment. Fed with explanations in time order; not for use from several threads.

    Attributes:
        deployment: its name.
        open_after: evaluations in a row that must show a finding before it is an incident, or a higher severity before
            an incident has it.
        close_after: seconds without it, in windows that could have shown it, before an incident ends.

    """

    def __init__(self, deployment: str, *, open_after: int = 2, close_after: float = 300.0) -> None:
        self.deployment, self.open_after, self.close_after = deployment, open_after, close_after
        self._open: dict[str, Incident] = {}
        self._candidates: dict[str, _Candidate] = {}
        self._gone_for: dict[str, float] = {}
        self._ended_rounds: dict[str, int] = {}
        self._lower: dict[str, _LowerSpell] = {}
        self._higher: dict[str, int] = {}
        self._traffic = LastTraffic()
        self._last: float | None = None

    @property
    def open(self) -> tuple[Incident, ...]:
        """The incidents that last, the worst first."""
        return tuple(sorted(self._open.values(), key=lambda one: (-one.severity.rank, -one.harm, one.opened, one.id)))

    def restore(self, incidents: Iterable[Incident]) -> None:
        """Take up the open incidents of an earlier run, so that they keep their identity."""
        self._open.update({one.fingerprint: one for one in incidents if one.open})

    def end(self, at: float) -> tuple[IncidentChange, ...]:
        """Close everything at Unix second `at`: what they are about is not looked at any more."""
        ended = tuple(_closed(incident, at, Ending.UNWATCHED) for incident in self.open)
        self._open.clear()
        self._gone_for.clear()
        self._ended_rounds.clear()
        self._lower.clear()
        self._higher.clear()
        self._traffic = LastTraffic()
        self._candidates.clear()
        return ended

    def update(self, explanation: Explanation, at: float, steady: float) -> tuple[IncidentChange, ...]:
        """Return what one more explanation changes: incidents opened, updated and closed.

        Args:
            explanation: the verdict on the window that ends now.
            at: Unix seconds of the newest scrape behind it, for dates.
            steady: a steady clock's seconds, for durations; not later than the last is a repetition, and ignored.

        """
        if self._last is not None and steady <= self._last:
            return ()
        elapsed = steady - self._last if self._last is not None else 0.0
        self._last = steady
        present = {finding.id: finding for finding in explanation.actionable}
        for incident in self._open.values():
            self._traffic.look(incident.fingerprint, incident.subject, explanation.evidence, elapsed)
        changes = [*self._seen(at, elapsed, present), *self._missed(at, elapsed, explanation, present)]
        return tuple(self._linked(changes, present))

    def with_severities(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return findings with the severities of their open incidents, so that every surface shows the same."""
        return tuple(
            replace(one, severity=known.severity) if one.severity.actionable and known else one
            for one in findings
            for known in (self._open.get(one.id),)
        )

    def _seen(self, at: float, elapsed: float, present: Mapping[str, Finding]) -> Iterator[IncidentChange]:
        for fingerprint, finding in present.items():
            known = self._open.get(fingerprint)
            if known is not None:
                self._gone_for.pop(fingerprint, None)
                self._ended_rounds.pop(fingerprint, None)
                severity = self._steady_severity(known, finding.severity, elapsed)
                yield self._keep(IncidentTransition.UPDATED, _updated(known, finding, severity, at))
            elif (candidate := self._counted(fingerprint, at)).times >= self.open_after:
                del self._candidates[fingerprint]
                yield self._keep(IncidentTransition.OPENED, _opened(self.deployment, finding, candidate.first_seen, at))

    def _steady_severity(self, known: Incident, measured: Severity, elapsed: float) -> Severity:
        """Return the severity to show: a higher one once it lasts, a lower one after `LOWER_AFTER`."""
        higher = self._higher.pop(known.fingerprint, 0) + 1
        if measured.rank >= known.severity.rank:
            self._lower.pop(known.fingerprint, None)
            if measured is known.severity or higher >= self.open_after:
                return measured
            self._higher[known.fingerprint] = higher
            return known.severity
        spell = self._lower.get(known.fingerprint)
        if spell is None:
            self._lower[known.fingerprint] = _LowerSpell(measured)
            return known.severity
        spell.seconds += elapsed
        spell.severity = max(spell.severity, measured, key=lambda severity: severity.rank)
        if spell.seconds < LOWER_AFTER.value:
            return known.severity
        del self._lower[known.fingerprint]
        return spell.severity

    def _counted(self, fingerprint: str, at: float) -> _Candidate:
        candidate = self._candidates.get(fingerprint)
        if candidate is None:
            candidate = self._candidates[fingerprint] = _Candidate(first_seen=at)
        else:
            candidate.times += 1
        return candidate

    def _missed(
        self, at: float, elapsed: float, explanation: Explanation, present: Mapping[str, Finding]
    ) -> Iterator[IncidentChange]:
        yield from self._proven(at, explanation, present)
        for fingerprint in self._higher.keys() - present.keys():
            del self._higher[fingerprint]
        judged = explanation.verdict in JUDGED or explanation.healthy_as_read
        for fingerprint in self._candidates.keys() - present.keys() if judged else ():
            del self._candidates[fingerprint]
        # Without traffic nobody is hurt, and most checks have too little to decide by.
        undecided = frozenset() if explanation.verdict is Verdict.IDLE else _undecided(explanation)
        for fingerprint, incident in list(self._open.items()):
            if fingerprint in present or (incident.check, incident.subject.model) in undecided:
                continue
            # Whether something is there is seen, whatever else is unclear. What takes time may be hidden by that.
            if not judged and not (incident.check == OUTAGE and _quiet(incident, explanation)):
                continue
            if _still_away(incident, explanation):
                self._gone_for.pop(fingerprint, None)
                continue
            gone = self._gone_for[fingerprint] = self._gone_for.get(fingerprint, 0.0) + elapsed
            ended = self._traffic.ended(fingerprint) if incident.peak else None
            if ended is not None and self._traffic.pause(fingerprint) >= self.close_after:
                yield self._close(incident, ended, Ending.TRAFFIC_ENDED)
            elif gone >= self.close_after:
                # What cost requests nothing ends without them.
                shown = explanation.verdict is not Verdict.IDLE or not incident.peak
                yield self._close(incident, at, Ending.GONE if shown else Ending.LITTLE_TRAFFIC)

    def _proven(self, at: float, explanation: Explanation, present: Mapping[str, Finding]) -> Iterator[IncidentChange]:
        """Close what enough verdicts show gone since its settings were changed.

        Such a verdict need not say whether all is well: its own check has to be able to decide, and requests to come.
        """
        for fingerprint, incident in list(self._open.items()):
            if fingerprint in present or _still_away(incident, explanation):
                continue
            if _shows_gone(incident, explanation):
                rounds = self._ended_rounds[fingerprint] = self._ended_rounds.get(fingerprint, 0) + 1
                if rounds >= ROUNDS_TO_END:
                    yield self._close(incident, at, Ending.CHANGED)

    def _close(self, incident: Incident, at: float, ending: Ending) -> IncidentChange:
        for kept in (self._open, self._gone_for, self._ended_rounds, self._lower, self._higher):
            kept.pop(incident.fingerprint, None)
        self._traffic.forget(incident.fingerprint)
        return _closed(incident, at, ending)

    def _keep(self, kind: IncidentTransition, incident: Incident) -> IncidentChange:
        self._open[incident.fingerprint] = incident
        return IncidentChange(kind=kind, incident=incident)

    def _linked(self, changes: Sequence[IncidentChange], present: Mapping[str, Finding]) -> Iterator[IncidentChange]:
        """Attach each consequence to the incident of its cause, where that is one."""
        for change in changes:
            finding = present.get(change.incident.fingerprint)
            cause = self._open.get(finding.caused_by or "") if finding else None
            if finding is None or change.incident.caused_by == (cause.id if cause else None):
                yield change
            else:
                yield self._keep(change.kind, replace(change.incident, caused_by=cause.id if cause else None))


def concerns(incident: Incident, server: str, change: Setting) -> bool:
    """Return whether a change of settings is of what an incident is about: its model, its ensemble, its server."""
    subject = incident.subject
    return server == subject.server and (subject.model is None or change.model in (subject.model, subject.ensemble))


def _shows_gone(incident: Incident, explanation: Explanation) -> bool:
    """Return whether its check was quiet by what was measured since settings that concern it were changed."""
    changed = (
        change.at > incident.opened and concerns(incident, server, change) for server, change in explanation.cuts
    )
    if not any(changed):
        return False
    on = incident.subject
    requests = sum(item.requests for item in explanation.anatomy if item.server == on.server)
    return requests >= ENOUGH_EVENTS and _quiet(incident, explanation)


def _quiet(incident: Incident, explanation: Explanation) -> bool:
    """Return whether its check could decide on its subject, and found nothing."""
    on = incident.subject
    return any(
        result.check.id == incident.check
        and (result.subject.server, result.subject.model) == (on.server, on.model)
        and isinstance(result.outcome, Quiet)
        for result in explanation.results
    )


def _still_away(incident: Incident, explanation: Explanation) -> bool:
    """Return whether an outage lasts: what it is about is listed nowhere, or was not there at the last read.

    A window that holds nothing but the outage does not show that there is demand, so the finding is not in it any more.
    """
    if incident.check != OUTAGE:
        return False
    on, evidence = incident.subject, explanation.evidence
    server = Subject(server=on.server)
    if server not in evidence.subjects(Scope.SERVER) or not evidence.moments(on.server):
        return True
    # Without the index, what is loaded shows in the counters.
    scopes = (Scope.LISTED, Scope.MODEL, Scope.ENSEMBLE)
    seen = {(one.server, one.model or one.ensemble) for scope in scopes for one in evidence.subjects(scope)}
    listed = on.model is None or (on.server, on.model) in seen
    return not listed or any(not one.over for one in (*evidence.outages(on), *evidence.outages(server)))


def _undecided(explanation: Explanation) -> frozenset[tuple[str, str | None]]:
    """Return (check, model) of what could not be judged: that it is absent means nothing."""
    return frozenset((result.check.id, result.subject.model) for result, _ in explanation.unknown)


def _opened(deployment: str, finding: Finding, first_seen: float, at: float) -> Incident:
    onset = finding.onset.at if finding.onset else first_seen
    blank = Incident(
        id=uuid.uuid4().hex,
        fingerprint=finding.id,
        deployment=deployment,
        check=finding.check,
        title=finding.title,
        layer=finding.layer,
        subject=finding.subject,
        severity=finding.severity,
        worst=finding.severity,
        confidence=finding.confidence,
        summary=finding.summary,
        onset=min(onset, at),
        opened=at,
        seen=at,
    )
    return _updated(blank, finding, finding.severity, at)


def _closed(incident: Incident, at: float, ending: Ending) -> IncidentChange:
    closed = max(at, incident.opened)
    over = replace(incident, closed=closed, seen=min(incident.seen, closed), ending=ending)
    return IncidentChange(kind=IncidentTransition.CLOSED, incident=over)


def _updated(incident: Incident, finding: Finding, severity: Severity, at: float) -> Incident:
    harm = finding.impact.harm
    peaked = harm > incident.peak
    return replace(
        incident,
        severity=severity,
        worst=max(incident.worst, severity, key=lambda severity: severity.rank),
        confidence=finding.confidence,
        summary=finding.summary,
        seen=at,
        seconds_per_request=finding.impact.seconds_per_request,
        share_of_latency=finding.impact.share_of_latency,
        share_of_requests_failed=finding.impact.share_of_requests_failed,
        peak=harm if peaked else incident.peak,
        peak_at=at if peaked else incident.peak_at,
    )
