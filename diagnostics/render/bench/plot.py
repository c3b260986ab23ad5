"""A sweep as bars for a terminal: what a load brings, beside what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.bench.report import BenchReport, LoadPoint
from diagnostics.render.bench import phrases
from diagnostics.render.plain import clean
from diagnostics.units import Unit

_BAR, _LOAD, _VALUE = 22, 10, 10
_EIGHTHS = " ▏▎▍▌▋▊▉"


def plot(report: BenchReport, *, unicode: bool) -> Iterator[str]:
    """Yield the lines of one picture for all targets, over one scale; nothing of fewer than two points."""
    points = [point for target in report.targets for point in target.points]
    if max((len(target.points) for target in report.targets), default=0) < 2:
        return
    most = {measure: max(_value(point, measure) or 0.0 for point in points) for measure in ("throughput", "mean")}
    width = _BAR + _VALUE
    yield f"{report.head:>{_LOAD}}  {'requests/s':<{width}}  mean latency"
    for name, target in zip(phrases.sides(report), report.targets, strict=True):
        if len(report.targets) > 1:
            yield clean(name)
        for point in target.points:
            rate = _part(point, "throughput", most["throughput"], Unit.COUNT, unicode)
            cost = _part(point, "mean", most["mean"], Unit.SECONDS, unicode)
            yield f"{point.load:>{_LOAD}g}  {rate:<{width}}  {cost}"


def _value(point: LoadPoint, measure: str) -> float | None:
    found = point.estimate(measure)
    return found.value if found else None


def _part(point: LoadPoint, measure: str, most: float, unit: Unit, unicode: bool) -> str:
    value = _value(point, measure)
    if value is None or most <= 0:
        return "—" if unicode else "-"
    return f"{bar(value / most, _BAR, unicode=unicode)} {unit.show(value) if unicode else ascii_of(unit.show(value))}"


def bar(share: float, width: int, *, unicode: bool) -> str:
    """Return a bar for a share of `width` columns, to an eighth of one, or in whole `#` without Unicode."""
    if not unicode:
        return "#" * max(1, round(share * width))
    whole, rest = divmod(round(share * width * 8), 8)
    return "█" * whole + (_EIGHTHS[rest] if rest else "" if whole else _EIGHTHS[1])


def ascii_of(text: str) -> str:
    """Return a number with its unit in ASCII."""
    return text.replace("µ", "u")
