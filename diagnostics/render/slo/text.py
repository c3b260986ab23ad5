"""Reports on objectives for terminals and for chats."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnostics.render.clean import clean
from diagnostics.render.markdown_text import escaped
from diagnostics.render.slo import words
from diagnostics.slo.report import SloReport

_WIDTH = 96


class _Point(NamedTuple):
    """One thing to say. `depth` is 1 for what belongs to the one before it."""

    text: str
    depth: int = 0
    loud: bool = False


def _points(report: SloReport) -> Iterator[_Point]:
    """Yield what is said of an objective below its heading and events."""
    if report.tally.total > 0:
        yield _Point(words.budget(report))
        yield _Point(words.burns(report))
        if report.left is not None:
            yield _Point(words.ending(report.forecast))
    yield from (_Point(line, loud=True) for line in words.alerts(report))
    for text, incidents in words.spent(report):
        yield _Point(text)
        yield from (_Point(line, 1) for line in incidents)
    yield from (_Point(f"not known: {line}") for line in words.gaps(report))


def slo_text(reports: Sequence[SloReport]) -> str:
    """Return the reports as text, a paragraph each."""
    return "\n".join("\n".join(_wrapped(_lines(one))) + "\n" for one in reports)


def _lines(report: SloReport) -> Iterator[str]:
    yield f"{clean(report.slo.name)}: {words.heading(report)}"
    yield f"  {words.events(report)}"
    yield from (f"{'  ' * (1 + point.depth)}{point.text}" for point in _points(report))


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
    yield escaped(f"{words.heading(report)}: {words.events(report)}.")
    yield ""
    for point in _points(report):
        mark = "**" if point.loud else ""
        yield f"{'  ' * point.depth}- {mark}{escaped(point.text)}{mark}"
