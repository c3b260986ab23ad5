"""Texts from servers inside Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from diagnostics.render.clean import clean

# What Markdown reads as a mark, a mention or a link, a backslash before it. Underscores within a word are none.
_MARKS = re.compile(r"([\\`*~\[\]|#@]|(?<!\w)_|_(?!\w)|(?<=\w):(?=//)|(?<=www)\.)")
# What HTML and chat programs read as a tag, a mention or an entity.
_TAGS = re.compile(r"<(?=[\w/!?@#])|&(?=#?\w+;)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table of plain texts, an empty one before it."""
    yield ""
    for row in (head, tuple("---" for _ in head), *rows):
        yield "| " + " | ".join(cell if cell == "---" else escaped(cell) for cell in row) + " |"


def escaped(text: str) -> str:
    """Return a text that reads as it is: no mark, mention, link or tag of its own."""
    return _MARKS.sub(r"\\\1", _TAGS.sub(lambda found: _ENTITIES[found[0]], clean(text)))
