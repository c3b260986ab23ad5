"""Text of alerts and messages: what a server names must neither call people nor make links where it ends up."""

from __future__ import annotations

import re

from diagnostics.render.clean import clean

# Chat programs take <!channel>, @here and [text](address) for commands; mail and pages show the stand-ins as well.
_STAND_INS = str.maketrans({"<": "‹", ">": "›"})
_MENTION = re.compile(r"@(?=\w)")


def harmless(text: str, most: int = 1_000) -> str:
    """Return the text as one line of at most `most` characters that no chat program takes for a command."""
    return cut(_unarmed(clean(text)), most)


def harmless_lines(text: str, most: int) -> str:
    """Return the text with its line breaks and tabs, otherwise like `harmless`; cut at the end of a line."""
    lines = [_unarmed("\t".join(clean(part) for part in line.split("\t"))) for line in text.split("\n")]
    whole = "\n".join(lines)
    if len(whole) <= most:
        return whole
    return f"{whole[:most].rpartition(chr(10))[0]}\n…"


def cut(text: str, most: int) -> str:
    """Return the text, its end replaced by … where it is longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _unarmed(text: str) -> str:
    return _MENTION.sub("＠", text.translate(_STAND_INS)).replace("](", "] (")
