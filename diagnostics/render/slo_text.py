"""Reports on objectives for terminals and for chats."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from diagnostics.render import slo_words as words
from diagnostics.render.markdown_text import escaped
from diagnostics.slo.report import SloReport

_WIDTH = 96


def slo_text(reports: Sequence[SloReport]) -> str:
    """Return the reports as text, a paragraph each."""
    return "\n".join("\n".join(_wrapped(_lines(one))) + "\n" for one in reports)


def _lines(report: SloReport) -> Iterator[str]:
    yield f"{report.slo.name}: {words.promise(report.slo)}, over {words.span(report.slo.period)}"
    yield f"  {words.events(report.tally)}"
    if report.tally.total > 0:
        yield f"  {words.budget(report)}"
        yield f"  burns: {', '.join(words.burn(one) for one in report.burns)}"
        if report.left is not None:
            yield f"  {words.ending(report.forecast)}"
    yield from (f"  {line}" for line in words.alerts(report))
    for one in report.spent:
        yield f"  {words.cause(one)}"
        yield from (f"    {line}" for line in words.incident_lines(one))
    if report.tally.bad > 0:
        yield f"  {words.unexplained(report)}"


def _wrapped(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        yield from textwrap.wrap(line, _WIDTH, subsequent_indent=indent, break_long_words=False) or [""]


def slo_markdown(reports: Sequence[SloReport]) -> str:
    """Return the reports as Markdown."""
    return "\n".join("\n".join(_markdown(one)) + "\n" for one in reports)


def _markdown(report: SloReport) -> Iterator[str]:
    yield f"### {escaped(report.slo.name)}"
    yield ""
    said = f"{words.promise(report.slo)}, over {words.span(report.slo.period)}: {words.events(report.tally)}."
    yield escaped(said)
    yield ""
    if report.tally.total > 0:
        yield f"- {escaped(words.budget(report))}"
        yield f"- burns: {', '.join(words.burn(one) for one in report.burns)}"
        if report.left is not None:
            yield f"- {escaped(words.ending(report.forecast))}"
    yield from (f"- **{escaped(line)}**" for line in words.alerts(report))
    for one in report.spent:
        yield f"- {escaped(words.cause(one))}"
        yield from (f"  - {escaped(line)}" for line in words.incident_lines(one))
    if report.tally.bad > 0:
        yield f"- {words.unexplained(report)}"
