"""Latency over throughput as a curve for a page: points with their intervals, in the drawing's own units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.bench.crossover import knee
from diagnostics.bench.report import BenchReport, BlockMean, LoadPoint, TargetResult
from diagnostics.render.bench import phrases
from diagnostics.render.html_page import axis_end, page
from diagnostics.units import Unit

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640.0, 280.0, 64.0, 620.0, 16.0, 244.0
# The colours that pages have for phases, one for each target.
TONES = ("compute", "queue")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A measured point; `low` and `high` are the ends of its latency's interval, `told` states it in words."""

    x: float
    y: float
    low: float
    high: float
    load: str
    reported: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One target's points, in order of load."""

    name: str
    tone: str
    path: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """All targets over one scale; `right` and `top` are what the axes end at."""

    curves: tuple[Curve, ...]
    right: str
    top: str


def drawing(report: BenchReport) -> Drawing | None:
    """Return mean latency over throughput; None where nothing was measured."""
    rate, mean = _most(report, "throughput"), _most(report, "mean")
    if not rate or not mean:
        return None
    right, top = axis_end(rate), axis_end(mean)
    sides = phrases.sides(report)
    curves = tuple(
        _curve(report, name, tone, target, (right, top))
        for name, tone, target in zip(sides, TONES, report.targets, strict=False)
    )
    return Drawing(curves=curves, right=f"{right:g}/s", top=Unit.SECONDS.show(top))


def _most(report: BenchReport, measure: str) -> float:
    found = (point.estimate(measure) for target in report.targets for point in target.points)
    return max((one.high or one.value for one in found if one is not None), default=0.0)


def _curve(report: BenchReport, name: str, tone: str, target: TargetResult, ends: tuple[float, float]) -> Curve:
    dots = tuple(dot for point in target.points if (dot := _dot(report, point, ends)) is not None)
    return Curve(name=name, tone=tone, path=_path(dots), dots=dots)


def _path(dots: Sequence[Dot]) -> str:
    return "M" + " L".join(f"{dot.x:.1f},{dot.y:.1f}" for dot in dots) if dots else ""


def _dot(report: BenchReport, point: LoadPoint, ends: tuple[float, float]) -> Dot | None:
    rate, mean = point.estimate("throughput"), point.estimate("mean")
    if rate is None or mean is None:
        return None
    low, high = _ends(mean)
    reported = f"{point.load:g} {report.axis}: {Unit.PER_SECOND.show(rate.value)}, {Unit.SECONDS.show(mean.value)}"
    found, _ = point.diagnosed()
    return Dot(
        x=LEFT + (RIGHT - LEFT) * min(rate.value / ends[0], 1.0),
        y=_y(mean.value, ends[1]),
        low=_y(low, ends[1]),
        high=_y(high, ends[1]),
        load=f"{point.load:g}",
        reported=f"{reported}, {found.cause or found.verdict}" if found else reported,
    )


def _ends(mean: BlockMean) -> tuple[float, float]:
    return (mean.value if mean.low is None else mean.low), (mean.value if mean.high is None else mean.high)


def _y(value: float, top: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * min(max(value / top, 0.0), 1.0)


def bench_html(report: BenchReport, measure: str = "mean") -> str:
    """Return the report as a page; names from servers cannot break out of it.

    Args:
        report: the load test.
        measure: what two targets are compared by.

    """
    found = phrases.compared(report, measure)
    first = report.targets[0]
    return page(
        "bench.html",
        report=report,
        stated=phrases,
        found=found,
        measure=phrases.MEASURE_WORDS[measure],
        headline=phrases.verdict(report, found) if found else _headline(report, first),
        step=phrases.routing(report, found) if found else phrases.goodput_text(report, first),
        drawn=drawing(report),
        tone="warning" if report.ended else "info",
    )


def _headline(report: BenchReport, target: TargetResult) -> str:
    """Return the knee; of fewer loads than show one, the most that was measured."""
    known = knee(target.points, report.seed) is not None
    return phrases.knee_text(report, target) if known else phrases.most_text(report, target)
