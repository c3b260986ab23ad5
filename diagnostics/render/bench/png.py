"""A sweep as a picture, with matplotlib: needs the extra `plot`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnostics.bench.crossover import knee
from diagnostics.bench.report import BenchReport, BlockMean, LoadPoint, TargetResult
from diagnostics.errors import UsageError, not_installed, reason_of
from diagnostics.render.bench import phrases

try:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator
except ModuleNotFoundError as error:
    raise not_installed(error, "plot", where="--png") from error

_TONES = ("tab:blue", "tab:orange")
_LINES = (("mean", "-"), ("p95", ":"))
# Pieces of the line between two points, which is straight in the logarithms of both, as the crossover's is.
_PIECES = 16
_Known = tuple[LoadPoint, BlockMean, BlockMean]


def draw(report: BenchReport, path: Path, measure: str = "mean") -> None:
    """Draw latency over load and over throughput into a PNG file, with knees and the crossover.

    Args:
        report: the load test.
        path: the file.
        measure: what two targets are compared by.

    Raises:
        UsageError: the file cannot be written.

    """
    figure = Figure(figsize=(13, 5.5), dpi=110, layout="constrained")
    over_load, over_rate = figure.subplots(1, 2, sharey=True)
    for name, tone, target in zip(phrases.sides(report), _TONES, report.targets, strict=False):
        for shown, line in _LINES:
            _curves(over_load, over_rate, target, (shown, line, tone), f"{name}, {shown}")
        _knee(report, target, over_load, over_rate, tone)
    _crossing(report, measure, over_load)
    _axes(report, over_load, over_rate)
    figure.suptitle(_title(report))
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"cannot be written: {reason_of(error)}", where=str(path)) from None


def _curves(over_load: Any, over_rate: Any, target: TargetResult, look: tuple[str, str, str], label: str) -> None:
    measure, line, tone = look
    found = _known(target, measure)
    style = {"color": tone, "capsize": 3, "markersize": 4 if measure == "mean" else 3}
    loads, rates = [point.load for point, _, _ in found], [rate.value for _, rate, _ in found]
    values, margins = [value.value for _, _, value in found], [value.margin or 0.0 for _, _, value in found]
    over_load.errorbar(loads, values, yerr=margins, fmt="o", **style)
    over_load.plot(*_between(loads, values), line, color=tone, label=label)
    spread = [rate.margin or 0.0 for _, rate, _ in found]
    over_rate.errorbar(rates, values, xerr=spread, yerr=margins, fmt=f"o{line}", **style)
    for load, rate, value in zip(loads, rates, values, strict=True) if measure == "mean" else ():
        over_rate.annotate(f"{load:g}", (rate, value), (5, -12), textcoords="offset points", color=tone)


def _between(loads: Sequence[float], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the points with what lies between them."""
    steps = [(at, part / _PIECES) for at in range(len(loads) - 1) for part in range(_PIECES)]

    def filled(ends: Sequence[float]) -> list[float]:
        logs = [math.log(max(end, 1e-9)) for end in ends]
        return [*(math.exp(logs[at] + part * (logs[at + 1] - logs[at])) for at, part in steps), *ends[-1:]]

    return filled(loads), filled(values)


def _known(target: TargetResult, measure: str) -> Sequence[_Known]:
    points = ((point, point.estimate("throughput"), point.estimate(measure)) for point in target.points)
    return [(point, rate, value) for point, rate, value in points if rate and value]


def _knee(report: BenchReport, target: TargetResult, over_load: Any, over_rate: Any, tone: str) -> None:
    """Ring the knee, where it lies inside the loads."""
    found = knee(target.points, report.seed)
    if found is None or found.above:
        return
    for point, rate, value in _known(target, "mean"):
        if point.load == found.load:
            for axes, at in ((over_load, point.load), (over_rate, rate.value)):
                label = "knee" if axes is over_load else None
                axes.plot([at], [value.value], "o", color=tone, fillstyle="none", markersize=14, label=label)


def _crossing(report: BenchReport, measure: str, axes: Any) -> None:
    found = phrases.compared(report, measure)
    if found is not None and found.low is not None and found.high is not None:
        label = f"{phrases.MEASURE_WORDS[measure]} crosses, 90 %"
        axes.axvspan(found.low, found.high, color="tab:gray", alpha=0.4, label=label)


def _axes(report: BenchReport, over_load: Any, over_rate: Any) -> None:
    loads = sorted({point.load for target in report.targets for point in target.points})
    if loads:
        over_load.set_xscale("log")
        over_load.set_xticks(loads, labels=[f"{load:g}" for load in loads])
        over_load.xaxis.set_minor_locator(NullLocator())
    load_unit = "clients" if report.loop == "closed" else "offered requests/s"
    over_load.set(xlabel=f"{load_unit}, logarithmic", ylabel="latency (s)", ylim=(0, None))
    over_load.legend()
    over_rate.set(xlabel=f"answered requests/s; numbers are {load_unit}", xlim=(0, None))
    for axes in (over_load, over_rate):
        axes.grid(alpha=0.3)


def _title(report: BenchReport) -> str:
    first = report.targets[0]
    if len(report.targets) == 1:
        return phrases.title(report, first)
    return f"{' and '.join(dict.fromkeys(target.model for target in report.targets))}, {report.loop} loop"
