"""A load test as one HTML file: curves, tables, a diagnosis of each point."""

from __future__ import annotations

from diagnostics.bench.knee import knee
from diagnostics.bench.report import Report, TargetResult
from diagnostics.render import bench_words
from diagnostics.render.bench_curve import drawing
from diagnostics.render.html_page import page


def bench_html(report: Report, measure: str = "mean") -> str:
    """Return the report as a page; names from servers cannot break out of it.

    Args:
        report: the load test.
        measure: what two targets are compared by.

    """
    found = bench_words.compared(report, measure)
    first = report.targets[0]
    return page(
        "bench.html",
        report=report,
        said=bench_words,
        found=found,
        measure=bench_words.MEASURE_WORDS[measure],
        headline=bench_words.verdict(report, found) if found else _headline(report, first),
        step=bench_words.routing(report, found) if found else bench_words.goodput_text(report, first),
        drawn=drawing(report),
        tone="warning" if report.ended else "info",
    )


def _headline(report: Report, target: TargetResult) -> str:
    """Return the knee; of fewer loads than show one, the most that was measured."""
    known = knee(target.points, report.seed) is not None
    return bench_words.knee_text(report, target) if known else bench_words.most_text(report, target)
