"""Text from servers, made safe to print."""

from __future__ import annotations

import unicodedata

# Other, control / format / surrogate: escape sequences, line breaks, and marks that reorder a line.
_UNSAFE = frozenset({"Cc", "Cf", "Cs"})


def clean(text: str) -> str:
    """Return the text with every control and formatting character as a visible escape; line breaks too."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escape(char) if unicodedata.category(char) in _UNSAFE else char for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
