"""A document for a terminal of 80 columns: an empty line between blocks, none between what belongs together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from diagnostics.render.document import (
    BarRow,
    Bars,
    Block,
    Code,
    Document,
    Heading,
    Headline,
    Points,
    Sentence,
    ShownBar,
    Table,
    TableColumn,
)
from diagnostics.render.plain import WIDTH, Style, clean, code_lines, diff_colour, fitted, plain, wrapped

_MARKED = "green"
# Columns that a last cell has in any case.
_SHORTEST = 9
# Columns of a bar that is alone in its row, of one beside another, and of that one with its number.
_ALONE, _SHARED, _BESIDE = 52, 22, 32


class _Ink(NamedTuple):
    """What bars are drawn with: full columns, the parts that end them, and what lies beyond."""

    full: str
    eighths: str
    tail: str


_BLOCKS = _Ink("█", " ▏▎▍▌▋▊▉", "░")
_LETTERS = _Ink("#", " ", ".")


def as_text(document: Document, style: Style = plain, *, unicode: bool = True) -> str:
    """Return the document as lines of at most 80 columns; only code may be wider.

    Args:
        document: what to show.
        style: gives a line a colour by name; plain by default.
        unicode: whether the terminal shows more than ASCII in bars.

    """
    lines: list[str] = []
    for block in document:
        shown = list(_lines(block, style, unicode))
        if shown and lines and _apart(block):
            lines.append("")
        lines += shown
    return "\n".join(lines) + "\n"


def _apart(block: Block) -> bool:
    """Whether an empty line separates a block from the one before it."""
    match block:
        case Sentence() | Code():
            return block.under is None
        case Points():
            return block.apart or bool(block.title)
        case Table():
            return not block.under
        case _:
            return True


def _lines(block: Block, style: Style, unicode: bool) -> Iterator[str]:
    match block:
        case Headline(text=text, verdict=verdict, colour=colour):
            yield from (style(line, colour) for line in wrapped(f"{verdict}: {text}" if verdict else text, hang="  "))
        case Heading(text=text, colour=colour):
            yield from (style(line, colour) for line in wrapped(text))
        case Sentence(text=text, under=under, colour=colour):
            yield from (style(line, colour) for line in wrapped(text, " " * (under or 0)))
        case Points():
            yield from _points(block)
        case Table():
            yield from _table(block, style)
        case Bars():
            yield from _bars(block, style, unicode)
        case Code():
            yield from _code(block, style)


def _points(block: Points) -> Iterator[str]:
    points = list(block.points())
    if points and block.title:
        yield f"{block.title}:"
    for point in points:
        indent = " " * (block.indent + 2 * point.depth)
        marked, hang = ("- ", "") if block.marked else ("", " " * block.hang)
        yield from wrapped(point.text, indent, marked, hang)


def _code(block: Code, style: Style) -> Iterator[str]:
    for line in code_lines(block.text) if block.text else ():
        yield style(" " * (block.under or 0) + line, diff_colour(line) if block.language != "sh" else "")


def _table(block: Table, style: Style) -> Iterator[str]:
    for number, shown in enumerate(_parts(block) if block.rows else ()):
        columns = [block.columns[at] for at in shown]
        if number:
            yield ""
        if block.headed:
            yield from _row(columns, [column.head for column in columns], block.indent)
        for at, cells in enumerate(block.rows):
            colour = _MARKED if at == block.marked else ""
            yield from (style(line, colour) for line in _row(columns, [cells[i] for i in shown], block.indent))


def _parts(block: Table) -> list[list[int]]:
    """Return the columns of each part of a table, by number: as many as a line holds, the first in all."""
    parts = [[0]]
    for at, column in enumerate(block.columns[1:], 1):
        used = block.indent + sum(block.columns[i].width for i in parts[-1])
        if used + column.width > WIDTH:
            parts.append([0])
        parts[-1].append(at)
    return parts


def _row(columns: Sequence[TableColumn], cells: Sequence[str], indent: int) -> Iterator[str]:
    line, after_right = " " * indent, False
    for at, (column, cell) in enumerate(zip(columns, cells, strict=True)):
        line += "  " if after_right and not column.right else ""
        after_right = column.right
        if column.right:
            line += f"{fitted(cell, column.width):>{column.width}}"
        elif column.wraps and column.width:
            *above, last = wrapped(cell, line, hang="  ") or [""]
            yield from above
            if at == 0 and len(last) >= indent + column.width:
                yield last
                last = ""
            line = f"{last:<{indent + column.width}}"
        elif column.width:
            line += _left(cell, column.width)
        elif column.wraps:
            first, *others = wrapped(cell, mark=line) or [line]
            yield first.rstrip()
            yield from others
            return
        else:
            line += fitted(cell, max(WIDTH - len(line), _SHORTEST))
    yield line.rstrip()


def _bars(block: Bars, style: Style, unicode: bool) -> Iterator[str]:
    ink = _BLOCKS if unicode else _LETTERS
    if block.legend:
        full, tail = block.legend
        yield f"{'':<{block.label}}{ink.full} {full}  {ink.tail} {tail}"
    elif block.head:
        label, first, *others = block.head
        yield f"{label:>{block.label}}  {first:<{_BESIDE}}  {'  '.join(others)}"
    for row in block.rows:
        yield style("".join(_bar_row(row, block, ink)).rstrip(), _MARKED if row.marked else "")


def _bar_row(row: BarRow, block: Bars, ink: _Ink) -> Iterator[str]:
    if not row.bars:
        yield clean(row.label)
        return
    yield f"{fitted(row.label, block.label):>{block.label}}  " if block.right else _left(row.label, block.label)
    alone = len(row.bars) == 1
    for one in row.bars:
        text = " ".join(filter(None, (_bar(one, _ALONE if alone else _SHARED, ink), one.shown)))
        text = text if ink is _BLOCKS else text.replace("µ", "u").replace("—", "-")
        yield f"{text}  " if alone else f"{text:<{_BESIDE}}  "
    yield row.remark


def _left(cell: str, width: int) -> str:
    return f"{fitted(cell, width - 1):<{width}}"


def _bar(one: ShownBar, columns: int, ink: _Ink) -> str:
    """Return the bar: to an eighth of a column in blocks, in whole columns in letters, one at least."""
    if one.full is None:
        return ""
    parts = len(ink.eighths)
    whole, part = divmod(max(round(one.full * columns * parts), 1), parts)
    full = ink.full * whole + (ink.eighths[part] if part else "")
    return full + ink.tail * max(round(one.to * columns) - max(len(full), 1), 0)
