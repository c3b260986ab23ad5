"""Latency over throughput as a picture, with matplotlib: needs the extra `bench`."""

from __future__ import annotations

from pathlib import Path

from diagnostics.bench.report import Report
from diagnostics.errors import UsageError, not_installed, reason_of
from diagnostics.render import bench_words as words

try:
    from matplotlib.figure import Figure
except ModuleNotFoundError as error:
    raise not_installed(error, "bench", where="--png") from error


def draw(report: Report, path: Path) -> None:
    """Draw mean and p95 latency over throughput into a PNG file, each point named by its load.

    Raises:
        UsageError: the file cannot be written.

    """
    figure = Figure(figsize=(9, 5.5), dpi=120, layout="constrained")
    axes = figure.subplots()
    for name, target in zip(words.sides(report), report.targets, strict=True):
        for measure, line in (("mean", "-"), ("p95", ":")):
            points = [(p, p.estimate("throughput"), p.estimate(measure)) for p in target.points]
            known = [(point, rate, value) for point, rate, value in points if rate and value]
            axes.errorbar(
                [rate.value for _, rate, _ in known],
                [value.value for _, _, value in known],
                xerr=[rate.margin or 0.0 for _, rate, _ in known],
                yerr=[value.margin or 0.0 for _, _, value in known],
                fmt=f"o{line}",
                capsize=3,
                label=f"{name}, {measure}",
            )
            for point, rate, value in known if measure == "mean" else ():
                axes.annotate(f"{point.load:g}", (rate.value, value.value), (6, -12), textcoords="offset points")
    axes.set(xlabel="requests/s", ylabel="latency (s)", title=_title(report))
    axes.set_ylim(bottom=0)
    axes.legend()
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise UsageError(f"cannot be written: {reason_of(error)}", where=str(path)) from None


def _title(report: Report) -> str:
    first = report.targets[0]
    return words.title(report, first) if len(report.targets) == 1 else f"{first.model}, {report.loop} loop"
