"""TOML that anyone may have written: bounded first, as the work of Python's parser grows with a key's depth squared."""

from __future__ import annotations

import re
import tomllib
from typing import Any

DEEPEST_KEY = 32
"""Parts of a dotted key or of a table's name: settings have three, projects a few more."""
# A part begins where no other can be going on, and is read for a bounded length: the search is linear.
_PART = r"""(?:[A-Za-z0-9_-]{1,256}+|"(?:[^"\\\n]|\\.){0,256}+"|'[^'\n]{0,256}+')"""
_DEEP = re.compile(rf"(?<![A-Za-z0-9_\\-]){_PART}(?:[ \t]{{0,9}}+\.[ \t]{{0,9}}+{_PART}){{{DEEPEST_KEY}}}")


def toml_of(text: str) -> dict[str, Any]:
    """Return the tree in a TOML document.

    Raises:
        ValueError: it is not TOML, or its keys or values are nested too deeply.

    """
    if deep := _DEEP.search(text):
        line = text.count("\n", 0, deep.start()) + 1
        raise ValueError(f"a key of more than {DEEPEST_KEY} parts is nested too deeply (at line {line})")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("its values are nested too deeply") from None
