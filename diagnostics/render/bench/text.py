"""A load test for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from diagnostics.bench.report import BenchReport, TargetResult
from diagnostics.render.bench import phrases
from diagnostics.render.plain import WIDTH, Style, clean, escaped, plain, shortened, table

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
        reported = _wrapped(f"ended early: {report.ended}; what was measured until then is above", "")
        lines += [style(line, "yellow") for line in reported]
    return "\n".join(lines).rstrip("\n") + "\n"


def _target(report: BenchReport, target: TargetResult, before: TargetResult | None, style: Style) -> Iterator[str]:
    """Yield what is told of a target; what is the same of the one before it is not told again."""
    yield style(clean(phrases.title(report, target)), "cyan")
    if before is None:
        yield from _wrapped(phrases.method(report), "  ")
    if before is None or before.workload != target.workload:
        yield from _wrapped(phrases.workload(target), "  ")
    if not target.points:
        yield "  nothing was measured"
        return
    main, further = phrases.columns(target)
    for columns in (main, *_groups(further)):
        yield ""
        yield from _table(report, target, columns)
    yield ""
    for reported in phrases.diagnoses(target):
        yield from _wrapped(f"at {reported.load:g}: {reported.stated}", "  ")
        if reported.new and reported.more:
            yield from _wrapped(reported.more, "    ")
    yield from _wrapped(phrases.knee_text(report, target), "  ")
    yield from _wrapped(phrases.goodput_text(report, target), "  ")
    for note in target.notes:
        if before is None or note not in before.notes:
            yield from _wrapped(f"note: {note}", "  ")


def _groups(columns: Sequence[phrases.Column]) -> Iterator[Sequence[phrases.Column]]:
    return (columns[start : start + _COLUMNS] for start in range(0, len(columns), _COLUMNS))


def _table(report: BenchReport, target: TargetResult, columns: Sequence[phrases.Column]) -> Iterator[str]:
    main = columns[0].measure == "throughput"
    head = "".join(f"{column.head:>{_CELL}}" for column in columns)
    yield f"{report.head:>{_LOAD}}{head}{'failed' if main else '':>{_FAILED}}".rstrip()
    for point in target.points:
        cells = "".join(f"{phrases.cell(point, column):>{_CELL}}" for column in columns)
        yield f"{point.load:>{_LOAD}g}{cells}{phrases.failed(point) if main else '':>{_FAILED}}".rstrip()


def _comparison(report: BenchReport, measure: str) -> Iterator[str]:
    found = phrases.compared(report, measure)
    if found is None:
        return
    names = [clean(name) for name in phrases.sides(report)]
    yield f"{names[1]} ÷ {names[0]}, {phrases.MEASURE_WORDS[measure]}"
    for load, ratio in phrases.ratio_rows(found):
        yield f"{load:>{_LOAD}g}{ratio:>{_CELL}}"
    yield from _wrapped(clean(phrases.verdict(report, found)), "  ")
    yield from _wrapped(clean(phrases.routing(report, found)), "  ")
    yield ""


def _picture(report: BenchReport, unicode: bool) -> Iterator[str]:
    from diagnostics.render.bench.plot import plot

    drawn = list(plot(report, unicode=unicode))
    if drawn:
        yield from drawn
        yield ""


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(shortened(text), WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def bench_markdown(report: BenchReport, measure: str = "mean") -> str:
    """Return the report; `measure` is what two targets are compared by."""
    lines: list[str] = []
    for target in report.targets:
        lines += [*_target_markdown(report, target), ""]
    lines += _comparison_markdown(report, measure)
    if report.ended:
        lines += ["", f"**Ended early**: {escaped(report.ended)}; what was measured until then is above."]
    return "\n".join(lines).rstrip("\n") + "\n"


def _target_markdown(report: BenchReport, target: TargetResult) -> Iterator[str]:
    yield f"## {escaped(phrases.title(report, target))}"
    yield ""
    yield f"{escaped(phrases.method(report))}. {escaped(phrases.workload(target))}."
    main, further = phrases.columns(target)
    columns = (*main, *further)
    yield from table(
        (report.head, *(column.head for column in columns), "failed", "diagnosis"),
        (
            (
                f"{point.load:g}",
                *(phrases.cell(point, column) for column in columns),
                phrases.failed(point),
                reported.stated,
            )
            for point, reported in zip(target.points, phrases.diagnoses(target), strict=True)
        ),
    )
    yield ""
    for reported in phrases.diagnoses(target):
        if reported.new and reported.more:
            yield f"- at {reported.load:g}: {escaped(reported.more)}"
    for line in filter(None, (phrases.knee_text(report, target), phrases.goodput_text(report, target))):
        yield f"- {escaped(line)}"
    for note in target.notes:
        yield f"- note: {escaped(note)}"


def _comparison_markdown(report: BenchReport, measure: str) -> Iterator[str]:
    found = phrases.compared(report, measure)
    if found is None:
        return
    names = phrases.sides(report)
    yield f"## Compared by {phrases.MEASURE_WORDS[measure]}"
    yield from table((report.head, f"{names[1]} ÷ {names[0]}"), ((f"{x:g}", y) for x, y in phrases.ratio_rows(found)))
    yield ""
    yield f"- {escaped(phrases.verdict(report, found))}"
    yield f"- {escaped(phrases.routing(report, found))}"
