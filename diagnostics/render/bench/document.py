"""A load test in tables, sentences and bars."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.bench.report import BenchReport, LoadPoint, TargetResult
from diagnostics.render.bench import phrases
from diagnostics.render.document import (
    BarRow,
    Bars,
    Block,
    Document,
    Heading,
    Point,
    Points,
    Sentence,
    ShownBar,
    Table,
    TableColumn,
)
from diagnostics.units import Unit

_LOAD, _FAILED, _CELL = 10, 9, 15


def bench_document(report: BenchReport, measure: str = "mean") -> Document:
    """Return what was measured; `measure` is what two targets are compared by."""
    before = (None, *report.targets)
    ended = f"ended early: {report.ended}; results until then are above" if report.ended else ""
    return [
        *(block for pair in zip(report.targets, before, strict=False) for block in _target(report, *pair)),
        *_comparison(report, measure),
        *_picture(report),
        Sentence(text=ended, colour="yellow"),
    ]


def _target(report: BenchReport, target: TargetResult, before: TargetResult | None) -> Iterator[Block]:
    """Yield the lines about a target; what is the same as for the one before it is not repeated."""
    yield Heading(text=phrases.title(report, target), colour="cyan")
    method = phrases.method(report) if before is None else ""
    workload = phrases.workload(target) if before is None or before.workload != target.workload else ""
    yield Points(items=(method, workload), marked=False)
    if not target.points:
        yield Sentence(text="nothing was measured", under=2)
        return
    yield _table(report, target)
    notes = (note for note in target.notes if before is None or note not in before.notes)
    stated = (phrases.knee_text(report, target), phrases.goodput_text(report, target), *(f"note: {n}" for n in notes))
    yield Points(items=[*_diagnoses(target), *stated], marked=False, apart=True)


def _table(report: BenchReport, target: TargetResult) -> Table:
    main, further = phrases.columns(target)
    return Table(
        columns=[
            _right(report.head, _LOAD),
            *(_right(column.head, _CELL) for column in main),
            _right("failed", _FAILED),
            *(_right(column.head, _CELL) for column in further),
        ],
        rows=[
            (
                f"{point.load:g}",
                *(phrases.cell(point, column) for column in main),
                phrases.failed(point),
                *(phrases.cell(point, column) for column in further),
            )
            for point in target.points
        ],
        indent=0,
    )


def _right(head: str, width: int) -> TableColumn:
    return TableColumn(head=head, width=width, right=True)


def _diagnoses(target: TargetResult) -> Iterator[Point]:
    for found in phrases.diagnoses(target):
        yield Point(text=f"at {found.load:g}: {found.stated}")
        if found.new:
            yield Point(text=found.more, depth=1)


def _comparison(report: BenchReport, measure: str) -> Iterator[Block]:
    found = phrases.compared(report, measure)
    if found is None:
        return
    first, second = phrases.sides(report)
    ratio = f"{second} ÷ {first}"
    yield Heading(text=f"{ratio}, {phrases.MEASURE_WORDS[measure]}")
    yield Table(
        columns=(_right(report.head, _LOAD), _right(ratio, _CELL)),
        rows=[(f"{load:g}", shown) for load, shown in phrases.ratio_rows(found)],
        indent=0,
        headed=False,
        under=True,
    )
    yield Points(items=(phrases.verdict(report, found), phrases.routing(report, found)), marked=False)


def _picture(report: BenchReport) -> Iterator[Block]:
    """Yield what a load brings, beside what it costs; nothing of fewer than two points."""
    if max((len(target.points) for target in report.targets), default=0) < 2:
        return
    points = [point for target in report.targets for point in target.points]
    most = {measure: max(_value(point, measure) or 0.0 for point in points) for measure in ("throughput", "mean")}
    rows: list[BarRow] = []
    for name, target in zip(phrases.sides(report), report.targets, strict=True):
        rows += [BarRow(label=name)] if len(report.targets) > 1 else []
        for point in target.points:
            rate = _bar(point, "throughput", most["throughput"], Unit.COUNT)
            cost = _bar(point, "mean", most["mean"], Unit.SECONDS)
            rows.append(BarRow(label=f"{point.load:g}", bars=(rate, cost)))
    yield Bars(rows=rows, head=(report.head, "requests/s", "mean latency"), label=_LOAD, right=True)


def _bar(point: LoadPoint, measure: str, most: float, unit: Unit) -> ShownBar:
    value = _value(point, measure)
    if value is None or most <= 0:
        return ShownBar(full=None, shown="—")
    return ShownBar(full=value / most, shown=unit.show(value))


def _value(point: LoadPoint, measure: str) -> float | None:
    found = point.estimate(measure)
    return found.value if found else None
