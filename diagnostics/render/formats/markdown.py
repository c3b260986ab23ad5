"""A document as Markdown; names from servers cannot break out of it. Bars are left out: a table holds their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from diagnostics.render.document import (
    Bars,
    Block,
    Code,
    Document,
    Heading,
    Headline,
    Points,
    Sentence,
    Table,
)
from diagnostics.render.plain import code_lines, escaped


def write(document: Document) -> str:
    """Return the document as Markdown."""
    blocks = ("\n".join(_lines(block)) for block in document)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _lines(block: Block) -> Iterator[str]:
    match block:
        case Headline(text=text, verdict=verdict):
            yield f"**{escaped(verdict)}**: {escaped(text)}" if verdict else f"**{escaped(text)}**"
        case Heading(text=text):
            yield f"### {escaped(text.removesuffix(':'))}"
        case Sentence(text=text):
            yield f"{escaped(text.removesuffix('.'))}." if text else ""
        case Points():
            yield from _points(block)
        case Table():
            yield from _table(block)
        case Code(text=text, language=language):
            yield from _fenced(text, language) if text else ()
        case Bars():
            pass


def _points(block: Points) -> Iterator[str]:
    points = list(block.points())
    if points and block.title:
        yield from (f"### {escaped(block.title[0].upper() + block.title[1:])}", "")
    for point in points:
        mark = "**" if point.strong else ""
        yield f"{'  ' * point.depth}- {mark}{escaped(point.text)}{mark}"


def _table(block: Table) -> Iterator[str]:
    heads = tuple(column.head for column in block.columns)
    for row in (heads, tuple("---" for _ in heads), *block.rows) if block.rows else ():
        yield "| " + " | ".join(cell if cell == "---" else escaped(cell) for cell in row) + " |"


def _fenced(text: str, language: str) -> list[str]:
    """Return the lines of a code block that holds the text, whatever is in it."""
    body = code_lines(text)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", "\n".join(body))), default=0))
    return [f"{fence}{language}", *body, fence]
