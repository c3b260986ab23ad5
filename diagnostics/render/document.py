"""What a verb says, before a format is chosen: blocks that every writer knows how to show.

A verb builds a `Document`. `diagnostics/render/text.py` and the modules of `diagnostics/render/formats/` write it and
know no verb.
Texts come as servers wrote them: a writer makes them safe. An empty text is not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from diagnostics.diagnosis.advice import Advice
from diagnostics.tuning.patch import Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The answer in a sentence; `verdict` is the word that comes first, `colour` one that `Style` takes."""

    text: str
    verdict: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The title of what follows."""

    text: str
    colour: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence without its full stop.

    Attributes:
        text: what it says.
        under: in text, how many columns it stands below what comes before it; None for a paragraph of its own.
        colour: of its lines.

    """

    text: str
    under: int | None = None
    colour: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An item of a list; `depth` is 1 for what belongs to the one before it, `strong` for what is urgent."""

    text: str
    depth: int = 0
    strong: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """A list.

    Attributes:
        items: in order; a text is a point.
        title: a line above it, in lower case without a colon; empty for what belongs to the block before it.
        marked: whether text has a dash before each item.
        apart: whether text has an empty line before it; a titled one always has.
        indent, hang: in text, columns before each item, and those by which its further lines stand further in.

    """

    items: Sequence[str | Point]
    title: str = ""
    marked: bool = True
    apart: bool = False
    indent: int = 2
    hang: int = 2

    def points(self) -> Iterable[Point]:
        """Yield what is to be shown."""
        for item in self.items:
            point = Point(text=item) if isinstance(item, str) else item
            if point.text:
                yield point


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column; `width` is in text, 0 for a last one that takes the rest of the line and wraps.

    `right` aligns it to the right; `wraps` gives a first cell that is too long lines of its own above its row.
    """

    head: str = ""
    width: int = 0
    right: bool = False
    wraps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of cells; none for no rows.

    Attributes:
        columns: their heads and widths; of more than a line of text holds, the rest come below with the first again.
        rows: a cell per column.
        marked: the row that stands out.
        indent: in text, columns before the first.
        headed: whether text shows the heads.
        under: whether text has no empty line before it.

    """

    columns: Sequence[TableColumn]
    rows: Sequence[Sequence[str]]
    marked: int | None = None
    indent: int = 2
    headed: bool = True
    under: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownBar:
    """A bar: `full` is a part of the longest, 0 to 1, its tail goes on `to`; None draws none. `shown` is its number."""

    full: float | None
    to: float = 0.0
    shown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BarRow:
    """A labelled line of bars; one without bars names the rows that follow."""

    label: str
    bars: Sequence[ShownBar] = ()
    remark: str = ""
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Rows of bars that share a scale, for a terminal: tables hold the same numbers.

    Attributes:
        head: over the labels, then over each column of bars.
        rows: from top to bottom.
        legend: what the full part and the tail of a bar are, in place of heads; empty for bars without tails.
        label: the width of labels.
        right: whether labels are aligned to the right.

    """

    rows: Sequence[BarRow]
    head: Sequence[str] = ()
    legend: tuple[str, str] | None = None
    label: int = 8
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """Lines to be copied as they are.

    Attributes:
        text: of a patch or a command.
        language: as Markdown names it: `diff`, `protobuf`, `sh`.
        under: in text, how many columns it stands below what comes before it; None for a block of its own.

    """

    text: str
    language: str
    under: int | None = None


def patch_language(patch: Patch) -> str:
    """Return the language of a patch: a diff of a file, or a part of a configuration."""
    return "diff" if patch.base == "file" else "protobuf"


def patch_blocks(model: str, advice: Advice) -> Iterable[Block]:
    """Yield how to change a model's configuration: what that touches, how it is applied and undone, and the patch."""
    steps, patch = advice.steps, advice.patch
    yield Sentence(text=f"{model}: {steps.touches}" if steps else "")
    note = f"note: {advice.note}" if advice.note else ""
    how = (f"apply: {steps.apply}", f"undo: {steps.undo}") if steps and patch else ()
    yield Points(items=(note, *how), marked=False)
    if patch:
        yield Code(text=patch.text, language=patch_language(patch))


Block = Headline | Heading | Sentence | Points | Table | Bars | Code
Document = Sequence[Block]
