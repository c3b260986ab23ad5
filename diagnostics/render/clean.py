"""Text from servers, made safe to print and short enough to fit."""

from __future__ import annotations

import unicodedata

# Other, control / format / surrogate, and line and paragraph separators: escape sequences, line breaks, and marks that
# reorder a line.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MOST_WRAPPED = 10_000
"""Characters of one paragraph: more than a hundred lines, and time to wrap some texts grows with the square."""


def clean(text: str) -> str:
    """Return the text with every control and formatting character as a visible escape; line breaks too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def shortened(text: str) -> str:
    """Return the text as it is wrapped into lines: cleaned, and of a longer one the beginning and what is left out."""
    if len(text) <= MOST_WRAPPED:
        return clean(text)
    return f"{clean(text[:MOST_WRAPPED])}… ({len(text) - MOST_WRAPPED} more characters)"


def code_lines(text: str) -> list[str]:
    """Return the lines of a text that is to be applied as it is: tabs, and a carriage return at a line's end, stay."""
    lines = text.removesuffix("\n").split("\n")
    return ["\t".join(map(clean, line.removesuffix("\r").split("\t"))) + "\r" * line.endswith("\r") for line in lines]


def fitted(text: str, columns: int) -> str:
    """Return the cleaned text cut to so many columns; wide characters take two, combining ones none."""
    shown = clean(text)
    if sum(map(_columns, shown)) <= columns:
        return shown
    kept, used = "", 1
    for char in shown:
        used += _columns(char)
        if used > columns:
            break
        kept += char
    return f"{kept}…"


def _columns(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
