"""What a lint found, for people: a line per problem as compilers write it, and a line of sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.run import LintReport
from diagnostics.render.document import Document, Headline, Table, TableColumn
from diagnostics.render.plain import clean

Style = Callable[[str, str], str]
_COLOURS = {LintSeverity.ERROR: "red", LintSeverity.WARNING: "yellow", LintSeverity.INFO: "cyan"}
_PLURALS = {LintSeverity.ERROR: "errors", LintSeverity.WARNING: "warnings", LintSeverity.INFO: "info"}


def lint_text(report: LintReport, style: Style = lambda text, _: text) -> str:
    """Return the report; `style` gives a text a colour by name, plain by default."""
    return "".join(f"{line}\n" for line in _lines(report, style))


def lint_document(report: LintReport) -> Document:
    """Return the report for forms other than text: the sums, and a table of what was found."""
    columns = [TableColumn(head=head) for head in ("where", "severity", "problem", "rule")]
    rows = [
        (str(one.place), one.severity.value, f"{one.message}: {one.help}" if one.help else one.message, one.rule)
        for one in report.problems
    ]
    return [Headline(text=sums(report)), Table(columns=columns, rows=rows)]


def _lines(report: LintReport, style: Style) -> Iterator[str]:
    for problem in report.problems:
        yield from _problem(problem, style)
    yield sums(report)


def _problem(problem: LintProblem, style: Style) -> Iterator[str]:
    severity = style(problem.severity, _COLOURS[problem.severity])
    yield f"{clean(str(problem.place))}: {severity}: {clean(problem.message)} [{problem.rule}]"
    if problem.help:
        yield f"    {clean(problem.help)}"


def sums(report: LintReport) -> str:
    """Return how much was found in how much, in one line."""
    counts = {severity: sum(one.severity is severity for one in report.problems) for severity in LintSeverity}
    found = [count(number, severity, _PLURALS[severity]) for severity, number in counts.items() if number]
    where = count(report.models, "model", "models")
    where += f" ({report.unread} unreadable)" if report.unread else ""
    where += f" and {count(report.files, 'deployment file', 'deployment files')}" if report.files else ""
    waived = f"; {len(report.waived)} waived" if len(report.waived) else ""
    return f"{', '.join(found) or 'nothing to say'} in {where}{waived}"


def count(number: int, one: str, many: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {one if number == 1 else many}"
