"""From verdicts to what is written of them: changes, not repetitions."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol

from sqlalchemy import Connection

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.finding import Finding
from diagnostics.diagnosis.incident import Incident, IncidentChange, IncidentTransition
from diagnostics.render.explanation.json import report
from diagnostics.store import statements
from diagnostics.store.statements import Downsampler
from diagnostics.store.tables import clean, finding_row

# How long an incident that only goes on, and a verdict that only stays, may go unwritten.
INCIDENT_SECONDS, VERDICT_SECONDS = 60.0, 300.0
# A worst moment is reported again when it is worse by so much of all requests or latency.
_WORSE = 0.05


class Judged(Protocol):
    """A verdict on one deployment: its name, Unix seconds, the explanation, and what happened to incidents."""

    @property
    def deployment(self) -> str: ...
    @property
    def at(self) -> float: ...
    @property
    def explanation(self) -> Explanation: ...
    @property
    def changes(self) -> tuple[IncidentChange, ...]: ...


class Rank(IntEnum):
    """What is let fall first, where not all can be kept."""

    INCIDENT = 0
    VERDICT = 1
    SIGNALS = 2


@dataclass(frozen=True, slots=True)
class Write:
    """Something to be written: what to do on a connection, inside a transaction."""

    rank: Rank
    apply: Callable[[Connection], None]


@dataclass(slots=True)
class _Known:
    """What was last written of one deployment."""

    verdict: tuple[object, ...] = ()
    verdict_at: float = float("-inf")
    findings: dict[str, Finding] = field(default_factory=dict)
    signals: Downsampler = field(default_factory=Downsampler)


class Digest:
    """Turns verdicts into writes. For use by one thread.

    Attributes:
        open: the incidents that last, as of their newest change, by id.

    """

    def __init__(self) -> None:
        self.open: dict[str, Incident] = {}
        self._written: dict[str, Incident] = {}
        self._reported: dict[str, float] = {}
        self._known: dict[str, _Known] = {}

    def restore(self, incidents: list[Incident]) -> None:
        """Take up what an earlier run left open."""
        for one in incidents:
            self.open[one.id] = self._written[one.id] = one
            self._reported[one.id] = one.peak

    def apply(self, judged: Judged) -> Iterator[Write]:
        """Yield what one more verdict adds."""
        known = self._known.setdefault(judged.deployment, _Known())
        for change in judged.changes:
            yield from self._incident(change, judged)
        if judged.explanation.window.end <= 0:
            return  # nothing was read: it says nothing but what ended
        yield from _findings(known, judged)
        yield from _verdict(known, judged)
        over = known.signals.add(judged.explanation.evidence, judged.at)
        if over is not None:
            yield Write(Rank.SIGNALS, statements.add_signals(judged.deployment, *over))

    def rest(self) -> Iterator[Write]:
        """Yield what would have been written later: of incidents that go on, and of minutes that are not over."""
        for incident in self.open.values():
            if self._written.get(incident.id) != incident:
                yield Write(Rank.INCIDENT, statements.put_incident(incident))
        for name, known in self._known.items():
            over = known.signals.over()
            if over is not None:
                yield Write(Rank.SIGNALS, statements.add_signals(name, *over))

    def _incident(self, change: IncidentChange, judged: Judged) -> Iterator[Write]:
        incident = change.incident
        if change.kind is IncidentTransition.CLOSED:
            self.open.pop(incident.id, None)
            self._reported.pop(incident.id, None)
            self._written.pop(incident.id, None)
            yield Write(Rank.INCIDENT, statements.put_incident(incident))
            return
        self.open[incident.id] = incident
        if _matters(self._written.get(incident.id), incident):
            self._written[incident.id] = incident
            yield Write(Rank.INCIDENT, statements.put_incident(incident))
        if self._is_worst(incident):
            self._reported[incident.id] = incident.peak
            body = zlib.compress(json.dumps(report(judged.explanation), allow_nan=False).encode(), 6)
            yield Write(Rank.VERDICT, statements.put_report(incident.id, judged.at, body))

    def _is_worst(self, incident: Incident) -> bool:
        before = self._reported.get(incident.id)
        return before is None or incident.peak > before + _WORSE


def _matters(before: Incident | None, now: Incident) -> bool:
    if before is None or now.seen - before.seen >= INCIDENT_SECONDS or now.seen < before.seen:
        return True
    return (before.severity, before.worst, before.caused_by) != (now.severity, now.worst, now.caused_by)


def _findings(known: _Known, judged: Judged) -> Iterator[Write]:
    """Yield a row for each finding that came, went or changed."""
    present = {finding.id: finding for finding in judged.explanation.findings}
    rows = [
        finding_row(judged.deployment, judged.at, finding, present=True)
        for name, finding in present.items()
        if name not in known.findings or _gist(known.findings[name]) != _gist(finding)
    ]
    gone = [finding for name, finding in known.findings.items() if name not in present]
    rows += [finding_row(judged.deployment, judged.at, finding, present=False) for finding in gone]
    # What changed little keeps its old form, so that slow changes add up until they are written.
    known.findings = {
        name: known.findings[name]
        if name in known.findings and _gist(known.findings[name]) == _gist(finding)
        else finding
        for name, finding in present.items()
    }
    if rows:
        yield Write(Rank.VERDICT, statements.add_findings(rows))


def _gist(finding: Finding) -> tuple[object, ...]:
    """Return what of a finding is worth a row when it changes: shares in tenths, confidence in fifths."""
    impact = finding.impact
    shares = (round(impact.share_of_latency, 1), round(impact.share_of_requests_failed, 1))
    return (finding.severity, finding.caused_by, shares, round(finding.confidence * 5))


def _verdict(known: _Known, judged: Judged) -> Iterator[Write]:
    explanation = judged.explanation
    actionable = explanation.actionable
    stated = (explanation.verdict, explanation.layer, tuple(finding.id for finding in actionable))
    if stated == known.verdict and 0 <= judged.at - known.verdict_at < VERDICT_SECONDS:
        return
    known.verdict, known.verdict_at = stated, judged.at
    row = {
        "deployment": judged.deployment,
        "at": judged.at,
        "verdict": explanation.verdict.value,
        "reason": explanation.reason,
        "layer": explanation.layer.value if explanation.layer else None,
        "leading": actionable[0].id if actionable else None,
    }
    yield Write(Rank.VERDICT, statements.add_verdict(clean(row)))
