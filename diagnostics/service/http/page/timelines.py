"""Timelines: a few signals of one model over hours, with the incidents that lasted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.render.plain import clean
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Scope, Signal, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE
from diagnostics.store.reader import HistoryReader

Json = dict[str, Any]
LOOKS: tuple[tuple[str, str, Signal], ...] = (
    ("queue", "queue", QUEUE_SECONDS),
    ("requests", "rate", REQUEST_RATE),
    ("busy share", "compute", INSTANCE_BUSY_SHARE),
)
# Of one chart; a point per minute for five hours.
MOST_POINTS = 300
MOST_INCIDENTS = 200
SHORTEST, LONGEST = 300.0, 90 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRange:
    """What to look at: a model of a server, and from when to when in Unix seconds."""

    server: str
    model: str
    start: float
    end: float

    @property
    def step(self) -> float:
        """Seconds of a point."""
        return max(60.0, (self.end - self.start) / MOST_POINTS)


def remembered(past: HistoryReader, deployment: str, span: TimelineRange, now: Evidence | None, started: float) -> Json:
    """Return the charts of a span, and its incidents: from the history, and what is too new for it from the window.

    Args:
        past: the history.
        deployment: whose.
        span: what to look at.
        now: the newest verdict's; None before the first.
        started: when the service did, Unix seconds.

    Raises:
        SQLAlchemyError: the database is away.

    """
    charts, first = [], span.end
    for title, kind, signal in LOOKS:
        found = past.signals(
            deployment, signal.name, span.start, span.end, server=span.server, model=span.model, step=span.step
        )
        points = [(one.at + span.step / 2, one.mean) for one in found]
        known_to = found[-1].at + span.step if found else span.start
        points += _newest(now, signal, span, known_to) if now is not None else ()
        first = min(first, points[0][0]) if points else first
        charts.append(_chart(title, kind, signal, _broken(points, 3 * span.step)))
    lasted = past.incidents(deployment=deployment, since=span.start, until=span.end, limit=MOST_INCIDENTS)
    return _answer(span, charts, lasted) | {"since": started if span.start < started < first + span.step else None}


def _newest(now: Evidence, signal: Signal, span: TimelineRange, after: float) -> Iterator[tuple[float, float]]:
    """Yield what the window tells of a signal between Unix second `after` and the end of a span."""
    if all(one.server != span.server for one in now.subjects(Scope.SERVER)):
        return
    moments = [at for at in now.moments(span.server) if after <= at <= span.end]
    for sample in series(now, signal, Subject(server=span.server, model=span.model), instants(moments)):
        if sample.reading.value is not None:
            yield (sample.start + sample.end) / 2, sample.reading.value


def models(explanation: Explanation) -> tuple[Subject, ...]:
    """Return what a timeline can be about: every model that has requests, the first finding's first."""
    busy = {(item.server, stage.model) for item in explanation.anatomy for stage in item.stages}
    found = dict.fromkeys(
        Subject(server=one.server, model=one.model)
        for one in explanation.evidence.subjects(Scope.MODEL)
        if (one.server, one.model) in busy
    )
    first = leading(explanation)
    return tuple(sorted(found, key=lambda one: (one != first, one.server, one.model or "")))


def leading(explanation: Explanation) -> Subject | None:
    """Return the first finding's model, else the one where most time goes; None without traffic."""
    for finding in explanation.actionable[:1]:
        if finding.subject.model is not None:
            return Subject(server=finding.subject.server, model=finding.subject.model)
    for item in explanation.anatomy[:1]:
        slowest = max(item.stages, key=lambda stage: stage.seconds)
        return Subject(server=item.server, model=slowest.model)
    return None


def _broken(points: Sequence[tuple[float, float]], longest: float) -> list[tuple[float, float | None]]:
    """Return the points with a gap wherever nothing is known for longer than `longest` seconds."""
    found: list[tuple[float, float | None]] = []
    for at, value in points:
        if found and at - found[-1][0] > longest:
            found.append((found[-1][0] + longest / 2, None))
        found.append((at, value))
    return found


def _chart(title: str, kind: str, signal: Signal, points: Sequence[tuple[float, float | None]]) -> Json:
    return {
        "title": title,
        "kind": kind,
        "unit": signal.unit.value,
        "at": [round(at, 3) for at, _ in points],
        "values": [value for _, value in points],
        "told": ["" if value is None else signal.unit.show(value) for _, value in points],
    }


def _answer(span: TimelineRange, charts: Sequence[Json], incidents: Sequence[Incident]) -> Json:
    return {
        "name": clean(span.model),
        "from": span.start,
        "to": span.end,
        "charts": list(charts),
        "incidents": [
            {
                "id": one.id,
                "title": one.check,
                "about": clean(str(one.subject)),
                "severity": (one.severity if one.open else one.worst).value,
                "from": one.onset,
                "to": one.closed,
            }
            for one in incidents
        ],
    }
