"""Near matches for a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, existing: Iterable[str], command: str) -> str:
    """Return a hint that names what was probably meant, or the command that lists what exists."""
    close = difflib.get_close_matches(name, list(existing), n=3, cutoff=0.4)
    return f"did you mean {' or '.join(close)}?" if close else f"`{command}` lists them"
