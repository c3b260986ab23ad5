"""Evidence over time: small charts, one per signal, over the same instants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import MOST_SAMPLES, Sample, instants, series
from diagnostics.render.html_page import axis_end
from diagnostics.signals.counting import FEWEST_EVENTS
from diagnostics.signals.engine import ENGINE_WAITING
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.signal import Signal, Subject
from diagnostics.signals.triton import PENDING, QUEUE_SECONDS, REQUEST_RATE, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit, utc

# The drawing area of a chart, in its own units: room for the axis' end above, for times below.
WIDTH, LEFT, RIGHT, TOP, BOTTOM, HEIGHT = 360.0, 2.0, 358.0, 18.0, 96.0, 116.0
# A mean per stretch needs events; twice the fewest, as they spread unevenly.
_EVENTS_PER_STRETCH = 2 * FEWEST_EVENTS
_EDGE = 1.1
# Under four there is no course to see.
_FEWEST_STRETCHES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened: at `x` of the chart, in words with its time."""

    x: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A signal's course: a line as path data, the area under it, the axis' end and the times at both ends."""

    title: str
    kind: str
    line: str
    area: str
    top: str
    middle: str
    reported: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """All charts of one model, with what happened meanwhile and the times of their stretches."""

    name: str
    charts: tuple[Chart, ...]
    marks: tuple[Mark, ...]
    first: str
    last: str
    times: tuple[str, ...]


def course(evidence: Evidence, entry: Subject, on: Subject, onset: float | None = None) -> Course | None:
    """Return the charts of a model and of what calls it; None where too little happened to have a course.

    Args:
        evidence: what was read.
        entry: what users call: an ensemble, or the model itself.
        on: the model to look at.
        onset: when it began, Unix seconds, if that is known.

    """
    name = on.model or on.ensemble or ""
    requests = evidence.read(REQUESTS, on).value or 0.0
    most = min(int(requests / _EVENTS_PER_STRETCH), MOST_SAMPLES)
    at = instants(evidence.moments(on.server), most, onset) if most >= _FEWEST_STRETCHES else ()
    if len(at) <= _FEWEST_STRETCHES:
        return None
    whole = entry.ensemble or name
    looks: tuple[tuple[str, str, Signal, Subject], ...] = (
        (f"time of a request of {whole}", "total", REQUEST_SECONDS, entry),
        (f"queue of {name}", "queue", QUEUE_SECONDS, on),
        (f"requests waiting for {name}", "pending", PENDING, on),
        _work(evidence, on),
        (f"requests {name} completes", "rate", REQUEST_RATE, on),
    )
    drawn = [_chart(title, kind, series(evidence, signal, who, at), signal.unit) for title, kind, signal, who in looks]
    return Course(
        name=name,
        charts=tuple(chart for chart in drawn if chart is not None),
        marks=_marks(evidence, on, at, onset),
        first=clock(at[0]),
        last=clock(at[-1]),
        times=tuple(clock(end) for end in at[1:]),
    )


def _work(evidence: Evidence, on: Subject) -> tuple[str, str, Signal, Subject]:
    """Return what shows how full a model is: an engine's instances are free again once they handed a request over."""
    if evidence.is_engine(on):
        return f"requests waiting inside {on.model}'s engine", "pending", ENGINE_WAITING, on
    return f"busy share of {on.model}'s instances", "compute", INSTANCE_BUSY_SHARE, on


def clock(at: float) -> str:
    """Return the time of day in UTC."""
    return utc(at).strftime("%H:%M:%S")


def _marks(evidence: Evidence, on: Subject, at: Sequence[float], onset: float | None) -> tuple[Mark, ...]:
    """Return what happened to the model or its server within the charts, and the onset."""
    happened = [
        (change.at, "change", f"{clock(change.at)} {change}")
        for change in evidence.changes(on.server)
        if change.model in ("", on.model)
    ]
    if onset is not None:
        happened.append((onset, "onset", f"{clock(onset)} it begins"))
    inside = sorted((when, kind, text) for when, kind, text in happened if at[0] <= when <= at[-1])
    return tuple(Mark(x=round(_x(when, at[0], at[-1]), 1), kind=kind, text=text) for when, kind, text in inside)


def _chart(title: str, kind: str, samples: Sequence[Sample], unit: Unit) -> Chart | None:
    values = [sample.reading.value for sample in samples if sample.reading.value is not None]
    if not values:
        return None
    # A share of a stretch can exceed 1 by what was counted at its edges.
    end = 1.0 if unit is Unit.RATIO and max(values) <= _EDGE else axis_end(max(values))
    runs = _runs(samples)
    span = (samples[0].start, samples[-1].end)
    reported = f"{title}: {unit.show(values[0])} at first, {unit.show(values[-1])} at last"
    return Chart(
        title=title,
        kind=kind,
        line=" ".join(_line(run, span, end) for run in runs),
        area=" ".join(_area(run, span, end) for run in runs),
        top=unit.show(end),
        middle=unit.show(end / 2),
        reported=f"{reported}, between {unit.show(min(values))} and {unit.show(max(values))}",
        values=tuple("—" if s.reading.value is None else unit.show(s.reading.value) for s in samples),
    )


def _runs(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Return stretches of neighbouring samples that have a value: the line breaks where it is not known."""
    runs: list[list[Sample]] = [[]]
    for sample in samples:
        if sample.reading.value is None:
            runs.append([])
        else:
            runs[-1].append(sample)
    return [run for run in runs if run]


def _line(run: Sequence[Sample], span: tuple[float, float], end: float) -> str:
    """Return steps: a reading holds for its whole stretch."""
    points = []
    for sample in run:
        y = _y(sample.reading.value or 0.0, end)
        points += [f"{_x(sample.start, *span):.1f},{y:.1f}", f"{_x(sample.end, *span):.1f},{y:.1f}"]
    return "M" + " L".join(points)


def _area(run: Sequence[Sample], span: tuple[float, float], end: float) -> str:
    first, last = _x(run[0].start, *span), _x(run[-1].end, *span)
    return f"{_line(run, span, end)} L{last:.1f},{BOTTOM} L{first:.1f},{BOTTOM} Z"


def _x(at: float, first: float, last: float) -> float:
    return LEFT + (RIGHT - LEFT) * (at - first) / (last - first)


def _y(value: float, end: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * min(max(value / end, 0.0), 1.0)
