"""What text and Markdown say of a sweep, in the same words."""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.diagnosis.proposal import SweepProposal
from diagnostics.forecast.performance import Performance, StagePerformance
from diagnostics.forecast.sweep import SweepPoint
from diagnostics.render.forecast import words
from diagnostics.units import Unit

_show = Unit.SECONDS.show


def headline(proposal: SweepProposal) -> str:
    """Return what is varied, and where more brings no more."""
    beside = f" with {words.change(proposal)}" if words.change(proposal) else ""
    return f"{words.entry_name(proposal.on)} over {proposal.sweep.name}{beside}; {knee(proposal)}"


def knee(proposal: SweepProposal) -> str:
    """Return where more brings no more."""
    sweep = proposal.sweep
    if sweep.knee is None:
        kept = sweep.model is not None and any(point.performance.mean is not None for point in sweep.points)
        return "no knee: its values have no order" if kept else "no value keeps up with what arrives for sure"
    value = sweep.points[sweep.knee].value
    if sweep.model is None:
        return f"knee at {value}, the most throughput for its latency (Kleinrock's power)"
    if sweep.knee == len(sweep.points) - 1:
        return f"no knee up to {value}: more may bring more"
    return f"knee at {value}: nothing after it takes off another 5 % of the mean that is more than its interval"


def columns(proposal: SweepProposal) -> tuple[str, ...]:
    """Return the heads of the columns."""
    return ("value", "mean (90 %)", "p95", "answered", *_stage_columns(proposal), "")


def rows(proposal: SweepProposal) -> list[tuple[str, ...]]:
    """Return a row per value, the last cell a remark: `now`, `knee`."""
    return [
        (point.value, *_latency(point.performance), *_of_stage(proposal, point), remark(proposal, at))
        for at, point in enumerate(proposal.sweep.points)
    ]


def remark(proposal: SweepProposal, at: int) -> str:
    """Return what a value is: the one in effect, the knee, both or neither."""
    sweep = proposal.sweep
    marks = [word for word, place in (("now", sweep.now), ("knee", sweep.knee)) if place == at]
    return ", ".join(marks) if not _last_is_no_knee(proposal, at) else "now" if sweep.now == at else ""


def bars(points: Sequence[SweepPoint], columns: int) -> list[tuple[float, float] | None]:
    """Return per value the lengths, in columns, of its mean and of its p95; None where it cannot keep up.

    The longest p95 fills the columns.
    """
    found = [_bar(point.performance) for point in points]
    longest = max((p95 for bar in found if bar is not None for p95 in bar), default=0.0)
    if longest <= 0:
        return [None] * len(found)
    return [None if bar is None else (bar[0] / longest * columns, bar[1] / longest * columns) for bar in found]


def _last_is_no_knee(proposal: SweepProposal, at: int) -> bool:
    sweep = proposal.sweep
    return sweep.model is not None and at == sweep.knee == len(sweep.points) - 1


def _bar(one: Performance) -> tuple[float, float] | None:
    if one.mean is None:
        return None
    return one.mean.value, max(one.p95.value if one.p95 else 0.0, one.mean.value)


def _latency(one: Performance) -> tuple[str, str, str]:
    p95 = _show(one.p95.value) if one.p95 is not None else "—"
    return words.estimate(one.mean), p95, Unit.PER_SECOND.show(one.throughput.value)


def _stage_columns(proposal: SweepProposal) -> tuple[str, ...]:
    return ("queue", "busy") if proposal.sweep.model else ("busiest", "busy")


def _of_stage(proposal: SweepProposal, point: SweepPoint) -> tuple[str, str]:
    stages = point.performance.stages
    if not stages:
        return "—", "—"
    if proposal.sweep.model is None:
        busiest = max(stages, key=lambda stage: stage.busy_share.value)
        return busiest.model, Unit.RATIO.show(busiest.busy_share.value)
    stage = next((one for one in stages if one.model == proposal.sweep.model), None)
    return ("—", "—") if stage is None else (_queue(stage), Unit.RATIO.show(stage.busy_share.value))


def _queue(stage: StagePerformance) -> str:
    return "grows" if stage.queue_mean is None else _show(stage.queue_mean.value)
