"""Timelines: a few signals of one model over hours, with the incidents that lasted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from diagnostics.diagnosis.explanation import Explanation
from diagnostics.diagnosis.incident import Incident
from diagnostics.diagnosis.objective import Objective
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import instants, series
from diagnostics.render.plain import clean
from diagnostics.service.attention import TimelineMark
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.flow import FAILED_SHARE
from diagnostics.signals.signal import Scope, Signal, Subject
from diagnostics.signals.tails import REQUEST_P95
from diagnostics.signals.triton import QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS
from diagnostics.store.reader import HistoryReader

Json = dict[str, Any]
# Of one chart; a point per minute for five hours.
MOST_POINTS = 300
MOST_INCIDENTS = 200
DAY = 86400.0
SHORTEST, LONGEST = 300.0, 90 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRange:
    """What to look at: a model of a server, the entry point of its requests, and from when to when in Unix seconds."""

    server: str
    model: str
    entry: Subject
    start: float
    end: float

    @property
    def step(self) -> float:
        """Seconds of a point."""
        return max(60.0, (self.end - self.start) / MOST_POINTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """One chart: its title, its colour, and what of what it shows."""

    title: str
    kind: str
    signal: Signal
    on: Subject


def _looks(span: TimelineRange) -> Iterator[_Look]:
    """Yield what is charted beside the time of a request: what users feel of the entry point, then the model."""
    model = Subject(server=span.server, model=span.model)
    name = span.entry.ensemble or span.entry.model
    yield _Look(title=f"failed requests to {name}", kind="failed", signal=FAILED_SHARE, on=span.entry)
    yield _Look(title=f"requests to {name}", kind="rate", signal=REQUEST_RATE, on=span.entry)
    yield _Look(title=f"queue of {span.model}", kind="queue", signal=QUEUE_SECONDS, on=model)
    yield _Look(title=f"busy share of {span.model}", kind="compute", signal=INSTANCE_BUSY_SHARE, on=model)


def _times(span: TimelineRange, objective: Objective | None) -> Iterator[_Look]:
    """Yield what may be charted of the time of a request, the best first: Triton's p95 is off by default."""
    name = span.entry.ensemble or span.entry.model
    mean = _Look(title=f"mean request time of {name}", kind="time", signal=REQUEST_SECONDS, on=span.entry)
    if objective is None or objective.quantile is not None:
        yield _Look(title=f"p95 request time of {name}", kind="time", signal=REQUEST_P95, on=span.entry)
    yield mean


def remembered(
    past: HistoryReader | None,
    deployment: str,
    span: TimelineRange,
    now: Evidence | None,
    started: float,
    objective: Objective | None = None,
    marks: Sequence[TimelineMark] = (),
) -> Json:
    """Return the charts of a span, and its incidents: from the history, and what is too new for it from the window.

    Args:
        past: the history; None for what the window alone shows.
        deployment: whose.
        span: what to look at.
        now: the newest verdict's; None before the first.
        started: when the service did, Unix seconds.
        objective: is drawn beside the time of a request; None where none is stated.
        marks: deploys and maintenance of that span.

    Raises:
        SQLAlchemyError: the database is away.

    """

    def points(look: _Look) -> Sequence[tuple[float, float]]:
        return _points(past, deployment, look, span, now)

    times = ((look, points(look)) for look in _times(span, objective))
    shown = [*islice((one for one in times if one[1]), 1), *((look, points(look)) for look in _looks(span))]
    first = min((found[0][0] for _, found in shown if found), default=span.end)
    charts = [
        _chart(look, _broken(found, 3 * span.step), objective if look.kind == "time" else None)
        | {"api": _api(deployment, look, span)}
        for look, found in shown
    ]
    lasted = (
        past.incidents(deployment=deployment, since=span.start, until=span.end, limit=MOST_INCIDENTS) if past else ()
    )
    since = started if span.start < started < first + span.step else None
    return _answer(span, charts, lasted) | {"marks": [_mark(one) for one in marks], "since": since}


def _mark(one: TimelineMark) -> Json:
    return {"kind": clean(one.kind), "text": clean(one.text), "from": one.start, "to": one.end}


def _api(deployment: str, look: _Look, span: TimelineRange) -> str:
    """Return where the API has the same, without the base."""
    parameters = {
        "deployment": deployment,
        "server": span.server,
        "model": look.on.ensemble or look.on.model or "",
        "signal": look.signal.name,
        "start": f"{span.start:.0f}",
        "end": f"{span.end:.0f}",
        "step": f"{span.step:.0f}",
    }
    return f"/api/v1/signals?{urlencode(parameters, errors='replace')}"


def _points(
    past: HistoryReader | None, deployment: str, look: _Look, span: TimelineRange, now: Evidence | None
) -> Sequence[tuple[float, float]]:
    """Return times and values, the history's first, then those that are too new for it."""
    name = look.on.ensemble or look.on.model or ""
    found = (
        past.signals(deployment, look.signal.name, span.start, span.end, server=span.server, model=name, step=span.step)
        if past
        else []
    )
    known_to = found[-1].at + span.step if found else span.start
    newest = _newest(now, look, span, known_to) if now is not None else ()
    return [*((one.at + span.step / 2, one.mean) for one in found), *newest]


def _newest(now: Evidence, look: _Look, span: TimelineRange, after: float) -> Iterator[tuple[float, float]]:
    """Yield what the window shows of a signal between Unix second `after` and the end of a span."""
    if all(one.server != span.server for one in now.subjects(Scope.SERVER)):
        return
    moments = [at for at in now.moments(span.server) if after <= at <= span.end]
    for sample in series(now, look.signal, look.on, instants(moments)):
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


def entry_of(explanation: Explanation | None, on: Subject) -> Subject:
    """Return the entry point whose requests pass a model, the busiest first; the model itself where none is known."""
    for item in explanation.anatomy if explanation else ():
        if item.server == on.server and item.stage(on.model or "") is not None:
            name = item.ensemble
            return Subject(server=on.server, ensemble=name, model=None if name else item.stages[0].model)
    return on


RANGES: tuple[tuple[str, float], ...] = (("1 h", 3600.0), ("6 h", 21600.0), ("24 h", DAY), ("7 d", 7 * DAY))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRequest:
    """The span of an address: from one Unix second to another, of which either may be None, else the newest seconds."""

    since: float = RANGES[0][1]
    start: float | None = None
    end: float | None = None

    @property
    def query(self) -> dict[str, str]:
        """Return it as parameters of an address."""
        if self.start is None and self.end is None:
            return {"since": f"{self.since:.0f}"}
        named = {"from": self.start, "to": self.end}
        return {name: f"{at:.0f}" for name, at in named.items() if at is not None}


def name_of(on: Subject, *, several: bool) -> str:
    """Return a model's name, with its server where there are several."""
    return f"{on.model} on {on.server}" if several else on.model or ""


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


def _chart(look: _Look, points: Sequence[tuple[float, float | None]], objective: Objective | None) -> Json:
    stated = f"objective {objective.statistic} {look.signal.unit.show(objective.seconds)}" if objective else ""
    return {
        "title": clean(look.title),
        "kind": look.kind,
        "unit": look.signal.unit.value,
        "objective": {"value": objective.seconds, "told": stated} if objective else None,
        "at": [round(at, 3) for at, _ in points],
        "values": [value for _, value in points],
        "told": ["" if value is None else look.signal.unit.show(value) for _, value in points],
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
