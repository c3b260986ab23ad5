"""A load test as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.bench.report import BenchReport, TargetResult
from diagnostics.render.bench import words
from diagnostics.render.markdown_text import escaped, table


def bench_markdown(report: BenchReport, measure: str = "mean") -> str:
    """Return the report; `measure` is what two targets are compared by."""
    lines: list[str] = []
    for target in report.targets:
        lines += [*_target(report, target), ""]
    lines += _comparison(report, measure)
    if report.ended:
        lines += ["", f"**Ended early**: {escaped(report.ended)}; what was measured until then is above."]
    return "\n".join(lines).rstrip("\n") + "\n"


def _target(report: BenchReport, target: TargetResult) -> Iterator[str]:
    yield f"## {escaped(words.title(report, target))}"
    yield ""
    yield f"{escaped(words.method(report))}. {escaped(words.workload(target))}."
    main, further = words.columns(target)
    columns = (*main, *further)
    yield from table(
        (report.head, *(column.head for column in columns), "failed", "diagnosis"),
        (
            (f"{point.load:g}", *(words.cell(point, column) for column in columns), words.failed(point), told.said)
            for point, told in zip(target.points, words.diagnoses(target), strict=True)
        ),
    )
    yield ""
    for told in words.diagnoses(target):
        if told.new and told.more:
            yield f"- at {told.load:g}: {escaped(told.more)}"
    for line in filter(None, (words.knee_text(report, target), words.goodput_text(report, target))):
        yield f"- {escaped(line)}"
    for note in target.notes:
        yield f"- note: {escaped(note)}"


def _comparison(report: BenchReport, measure: str) -> Iterator[str]:
    found = words.compared(report, measure)
    if found is None:
        return
    names = words.sides(report)
    yield f"## Compared by {words.MEASURE_WORDS[measure]}"
    yield from table((report.head, f"{names[1]} ÷ {names[0]}"), ((f"{x:g}", y) for x, y in words.ratio_rows(found)))
    yield ""
    yield f"- {escaped(words.verdict(report, found))}"
    yield f"- {escaped(words.routing(report, found))}"
