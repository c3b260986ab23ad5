"""Finds the line of a TOML file that a setting stands in: the reader of the format does not tell."""

from __future__ import annotations

import re

_TABLE = re.compile(r"\s*\[\s*([\w-]+)\s*\]")
_LISTED = re.compile(r"\s*\[\[\s*([\w-]+)\s*\]\]")
_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*=""")


def line_of(text: str, name: str) -> int | None:
    """Return the line (from 1) of a setting by its dotted name, as in `server.0.url`; None where it is not seen.

    A name of a section stands for its heading. Settings within inline tables are found at the line of their table.
    """
    lines = _lines(text)
    around = [known for known in lines if f"{name}.".startswith(f"{known}.")]
    return lines[max(around, key=len)] if around else None


def _lines(text: str) -> dict[str, int]:
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
