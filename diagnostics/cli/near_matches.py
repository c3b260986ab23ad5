"""Near matches for a name that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def nearest(name: str, existing: Iterable[str], command: str) -> str:
    """Return a hint that names what was probably meant, or the command that lists what exists."""
    close = close_to(name, existing, least=0.4)
    return f"did you mean {' or '.join(close)}?" if close else f"`{command}` lists them"


def among(name: str, existing: Sequence[str], what: str) -> str:
    """Return a hint that names what was probably meant, and lists a dozen of what exists; `what` is its plural."""
    if not existing:
        return f"{what} are unknown: nothing was read of any"
    close = close_to(name, existing)
    meant = f"did you mean {' or '.join(close)}? " if close else ""
    return f"{meant}{what} are {', '.join(existing[:12])}{', …' if len(existing) > 12 else ''}"


def close_to(name: str, existing: Iterable[str], *, least: float = 0.6) -> list[str]:
    """Return up to three names like this one, the likest first; `least` is how like, 0 to 1."""
    return difflib.get_close_matches(name, list(existing), n=3, cutoff=least)
