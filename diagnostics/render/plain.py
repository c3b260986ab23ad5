"""Text from servers made safe to print: for terminals of 80 columns, and inside Markdown."""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from collections.abc import Callable

from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.units import Unit, time_text

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


_LAYOUT = re.compile(r"(\x1b\[[\d;]{0,20}m|\r?\n|\t)")


def legible(text: str) -> str:
    """Return a text that another program wrote, cleaned of all but its colours, line ends and tabs."""
    return "".join(part if number % 2 else clean(part) for number, part in enumerate(_LAYOUT.split(text)))


def visible(document: str) -> str:
    """Return JSON with escapes for what its writer leaves: all that ends a line, moves a cursor or turns a line."""
    if document.isprintable():
        return document
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in document)


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


WIDTH = 80
Style = Callable[[str, str], str]
"""Gives a text a colour by name (`red`, `yellow`, `green`, `cyan`, `bold`); none for an empty name."""


def plain(text: str, colour: str) -> str:  # noqa: ARG001
    """Return the text without colour."""
    return text


# No line ends between a number and its unit, nor between an option and its value.
_TOGETHER = re.compile(r"(?<=\d) (?=(?:%|[µm]?s|[KMG]iB)(?!\w))|(?<= --trace-config) ")
_JOINED = "\ue000"


def wrapped(line: str, indent: str = "", mark: str = "", hang: str = "") -> list[str]:
    """Return the line in 80 columns, nothing for nothing; `hang` indents what follows the first line further."""
    lines = textwrap.wrap(
        _TOGETHER.sub(_JOINED, shortened(line)),
        WIDTH,
        initial_indent=indent + mark,
        subsequent_indent=indent + " " * len(mark) + hang,
        break_on_hyphens=False,
    )
    return [one.replace(_JOINED, " ") for one in lines]


def window_text(window: WindowFacts) -> str:
    """Return when the evidence was read, for how long, and from whom."""
    seconds = Unit.SECONDS.show(window.end - window.start)
    span = f"{time_text(window.start)} to {time_text(window.end)}, {seconds}"
    if window.basis:
        span = window.basis if window.untimed else f"{span} ({window.basis})"
    return f"{span}, from {', '.join(_called(window, name) for name in window.sources)}"


def _called(window: WindowFacts, name: str) -> str:
    """Return the address that was given for a source, with its name in the evidence where that is another."""
    given = window.given.get(name, name)
    return given if given == name else f"{given} ({name})"


def diff_colour(line: str) -> str:
    """Return the colour of a line of a diff; empty for what is not changed."""
    if line.startswith("+") and not line.startswith("+++"):
        return "green"
    return "red" if line.startswith("-") and not line.startswith("---") else ""


# What Markdown reads as a mark, a mention or a link, a backslash before it. Underscores within a word are none.
_MARKS = re.compile(r"([\\`*~\[\]|#@]|(?<![^\W_])_|_(?![^\W_])|(?<=\w):(?=//)|(?<=www)\.)")
# What HTML and chat programs read as a tag, a mention or an entity.
_TAGS = re.compile(r"<(?=[\w/!?@#])|&(?=#?\w+;)")
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def escaped(text: str) -> str:
    """Return a text that reads as it is: no mark, mention, link or tag of its own."""
    return _MARKS.sub(r"\\\1", _TAGS.sub(lambda found: _ENTITIES[found[0]], clean(text)))
