"""The table of checks, read from their files without importing them: a shell waits for it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from diagnostics import checks

_LAYER = re.compile(r"\blayer=Layer\.([A-Z]+)")
_TITLE = re.compile(r'\A"""(.+?)\.?\n')


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """What the table says of one check: `layer` and `title` as its file states them."""

    id: str
    layer: str
    title: str


def rows() -> tuple[CheckRow, ...]:
    """Return a row per file that declares a check, by id. A test holds them against the imported catalogue."""
    found = []
    for path in sorted(Path(checks.__path__[0]).glob("*.py")):
        text = path.read_text("utf-8")
        layer, title = _LAYER.search(text), _TITLE.match(text)
        if layer and title and "\nCHECK = Check(" in text:
            found.append(CheckRow(id=path.stem.replace("_", "-"), layer=layer[1].lower(), title=title[1]))
    return tuple(found)
