"""How wide text is on a terminal."""

from __future__ import annotations

import unicodedata


def columns(text: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
