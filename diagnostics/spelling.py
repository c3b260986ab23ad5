"""What was probably meant by a name that does not exist: for every verb, rule and setting alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches

# Fewer letters begin too many names.
_FEWEST_LETTERS = 3
# What is less like the name than the best by this much was hardly meant: 'over-instanced' beside the right
# 'single-instance-serialization' for 'singel-instance-serialization' is.
_MUCH_LESS = 0.1


def close_to(name: str, existing: Iterable[str], *, most: int = 3, least: float = 0.6) -> list[str]:
    """Return the names that are like this one, the likest first; case, `-` and `_` do not matter.

    Names that begin with it come before all others, then those of which a word does, then misspellings.

    Args:
        name: what was given.
        existing: what there is.
        most: how many to return at most.
        least: how like a misspelling must be, 0 to 1 (Ratcliff and Obershelp's ratio).

    """
    given = _plain(name)
    known: dict[str, str] = {}
    for one in existing:
        known.setdefault(_plain(one), one)
    if given in known:
        return [known[given]]
    if len(given) >= _FEWEST_LETTERS:
        begins = [one for plain, one in known.items() if plain.startswith(given)]
        if found := begins or [one for plain, one in known.items() if f"-{given}" in plain or f".{given}" in plain]:
            return found[:most]
    close = get_close_matches(given, known, n=most, cutoff=least)
    likeness = {one: SequenceMatcher(None, one, given).ratio() for one in close}
    return [known[one] for one in close if likeness[one] >= likeness[close[0]] - _MUCH_LESS]


def meant(name: str, existing: Iterable[str]) -> str:
    """Return `did you mean …?` with the names that are like this one; empty where none is."""
    close = close_to(name, existing)
    return f"did you mean {' or '.join(close)}?" if close else ""


def among(name: str, existing: Sequence[str], what: str) -> str:
    """Return a hint that names what was probably meant, and lists a dozen of what exists; `what` is its plural."""
    if not existing:
        return f"{what} are unknown: nothing was read of any"
    listed = f"{what} are {', '.join(existing[:12])}{', …' if len(existing) > 12 else ''}"
    return " ".join(part for part in (meant(name, existing), listed) if part)


def _plain(name: str) -> str:
    return name.strip().casefold().replace("_", "-")
