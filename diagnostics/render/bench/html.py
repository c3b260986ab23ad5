"""A load test as one HTML file: curves, tables, a diagnosis of each point."""

from __future__ import annotations

from diagnostics.bench.knee import knee
from diagnostics.bench.report import BenchReport, TargetResult
from diagnostics.render.bench import words
from diagnostics.render.bench.curve import drawing
from diagnostics.render.html_page import page


def bench_html(report: BenchReport, measure: str = "mean") -> str:
    """Return the report as a page; names from servers cannot break out of it.

    Args:
        report: the load test.
        measure: what two targets are compared by.

    """
    found = words.compared(report, measure)
    first = report.targets[0]
    return page(
        "bench.html",
        report=report,
        said=words,
        found=found,
        measure=words.MEASURE_WORDS[measure],
        headline=words.verdict(report, found) if found else _headline(report, first),
        step=words.routing(report, found) if found else words.goodput_text(report, first),
        drawn=drawing(report),
        tone="warning" if report.ended else "info",
    )


def _headline(report: BenchReport, target: TargetResult) -> str:
    """Return the knee; of fewer loads than show one, the most that was measured."""
    known = knee(target.points, report.seed) is not None
    return words.knee_text(report, target) if known else words.most_text(report, target)
