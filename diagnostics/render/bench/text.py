"""A load test for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from diagnostics.bench.report import BenchReport, TargetResult
from diagnostics.render.bench import words
from diagnostics.render.clean import clean, shortened
from diagnostics.render.lines import WIDTH, Style, plain

_LOAD, _FAILED, _CELL, _COLUMNS = 10, 9, 15, 4


def bench_text(report: BenchReport, measure: str = "mean", style: Style = plain, *, unicode: bool = True) -> str:
    """Return the report as lines of at most 80 columns.

    Args:
        report: the load test.
        measure: what two targets are compared by.
        style: gives a line a colour.
        unicode: whether the terminal shows more than ASCII in pictures.

    """
    lines: list[str] = []
    for number, target in enumerate(report.targets):
        lines += [*_target(report, target, report.targets[number - 1] if number else None, style), ""]
    lines += _comparison(report, measure)
    lines += _picture(report, unicode)
    if report.ended:
        told = _wrapped(f"ended early: {report.ended}; what was measured until then is above", "")
        lines += [style(line, "yellow") for line in told]
    return "\n".join(lines).rstrip("\n") + "\n"


def _target(report: BenchReport, target: TargetResult, before: TargetResult | None, style: Style) -> Iterator[str]:
    """Yield what is told of a target; what is the same of the one before it is not told again."""
    yield style(clean(words.title(report, target)), "cyan")
    if before is None:
        yield from _wrapped(words.method(report), "  ")
    if before is None or before.workload != target.workload:
        yield from _wrapped(words.workload(target), "  ")
    if not target.points:
        yield "  nothing was measured"
        return
    main, further = words.columns(target)
    for columns in (main, *_groups(further)):
        yield ""
        yield from _table(report, target, columns)
    yield ""
    for told in words.diagnoses(target):
        yield from _wrapped(f"at {told.load:g}: {told.said}", "  ")
        if told.new and told.more:
            yield from _wrapped(told.more, "    ")
    yield from _wrapped(words.knee_text(report, target), "  ")
    yield from _wrapped(words.goodput_text(report, target), "  ")
    for note in target.notes:
        if before is None or note not in before.notes:
            yield from _wrapped(f"note: {note}", "  ")


def _groups(columns: Sequence[words.Column]) -> Iterator[Sequence[words.Column]]:
    return (columns[start : start + _COLUMNS] for start in range(0, len(columns), _COLUMNS))


def _table(report: BenchReport, target: TargetResult, columns: Sequence[words.Column]) -> Iterator[str]:
    main = columns[0].measure == "throughput"
    head = "".join(f"{column.head:>{_CELL}}" for column in columns)
    yield f"{report.head:>{_LOAD}}{head}{'failed' if main else '':>{_FAILED}}".rstrip()
    for point in target.points:
        cells = "".join(f"{words.cell(point, column):>{_CELL}}" for column in columns)
        yield f"{point.load:>{_LOAD}g}{cells}{words.failed(point) if main else '':>{_FAILED}}".rstrip()


def _comparison(report: BenchReport, measure: str) -> Iterator[str]:
    found = words.compared(report, measure)
    if found is None:
        return
    names = [clean(name) for name in words.sides(report)]
    yield f"{names[1]} ÷ {names[0]}, {words.MEASURE_WORDS[measure]}"
    for load, ratio in words.ratio_rows(found):
        yield f"{load:>{_LOAD}g}{ratio:>{_CELL}}"
    yield from _wrapped(clean(words.verdict(report, found)), "  ")
    yield from _wrapped(clean(words.routing(report, found)), "  ")
    yield ""


def _picture(report: BenchReport, unicode: bool) -> Iterator[str]:
    from diagnostics.render.bench.plot import plot

    drawn = list(plot(report, unicode=unicode))
    if drawn:
        yield from drawn
        yield ""


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(shortened(text), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")
