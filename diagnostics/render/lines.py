"""Lines of 80 columns for a terminal: wrapped, listed, and coloured by whoever knows how."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.render.clean import shortened
from diagnostics.units import Unit, time_text

WIDTH = 80
Style = Callable[[str, str], str]
"""Gives a text a colour by name (`red`, `yellow`, `green`, `cyan`, `bold`); none for an empty name."""


def plain(text: str, colour: str) -> str:  # noqa: ARG001
    """Return the text without colour."""
    return text


def wrapped(line: str, indent: str = "", mark: str = "", hang: str = "") -> list[str]:
    """Return the line in 80 columns, nothing for nothing; `hang` indents what follows the first line further."""
    return textwrap.wrap(
        shortened(line),
        WIDTH,
        initial_indent=indent + mark,
        subsequent_indent=indent + " " * len(mark) + hang,
        break_on_hyphens=False,
    )


def listed(title: str, items: Sequence[str]) -> Iterator[str]:
    """Yield a titled list; nothing for an empty one."""
    if items:
        yield from ("", title)
    for item in items:
        yield from wrapped(item, "  ", "- ")


def window_lines(window: WindowFacts) -> list[str]:
    """Return when the evidence was read and from whom."""
    seconds = Unit.SECONDS.show(window.end - window.start)
    span = f"{time_text(window.start)} to {time_text(window.end)}, {seconds}"
    if window.basis:
        span = window.basis if window.untimed else f"{span} ({window.basis})"
    return wrapped(f"{span}, from {', '.join(window.sources)}")


def diff_colour(line: str) -> str:
    """Return the colour of a line of a diff; empty for what is not changed."""
    if line.startswith("+") and not line.startswith("+++"):
        return "green"
    return "red" if line.startswith("-") and not line.startswith("---") else ""
