"""Finds the line of a TOML file that a setting stands in: the reader of the format does not tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_DEEPEST = 64
_TABLE = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_LISTED = re.compile(r"\s*\[\[\s*([\w-]+)\s*\]\]")
_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*=""")


def line_of(lines: Mapping[str, int], name: str) -> int | None:
    """Return the line (from 1) of a setting by its dotted name, as in `server.0.url`; None where it is not seen.

    A name of a section stands for its heading. Settings within inline tables are found at the line of their table.
    """
    return next((lines[outer] for outer in around(name) if outer in lines), None)


def around(name: str) -> Iterator[str]:
    """Yield a dotted name and those of the sections around it, the innermost first; a quoted key may hold any dots."""
    parts = name.split(".", _DEEPEST)[:_DEEPEST]
    yield name
    yield from (".".join(parts[:length]) for length in range(len(parts), 0, -1))


def lines_of(text: str) -> Mapping[str, int]:
    """Return the line of each heading and key by dotted name."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if listed := _LISTED.match(line):
            position = counts[listed[1]] = counts.get(listed[1], -1) + 1
            section = f"{listed[1]}.{position}"
            found[section] = number
        elif table := _TABLE.match(line):
            section = table[1]
            found[section] = number
        elif key := _KEY.match(line):
            name = key[1] or key[2] or key[3]
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found
