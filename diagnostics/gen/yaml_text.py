"""Writes YAML, so that a plain installation needs no YAML library. Scalars are bare words or quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

Tree = str | int | float | Mapping[str, "Tree"] | Sequence["Tree"]

_BARE = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*", re.ASCII)
# Words and numbers that YAML 1.1 readers take for something else than text.
_SPECIAL = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def yaml_text(tree: Tree) -> str:
    """Return `tree` as YAML that every reader of 1.1 or 1.2 reads back the same; keys keep their order."""
    return "\n".join(_lines(tree)) + "\n"


def _lines(tree: Tree) -> Iterator[str]:
    if isinstance(tree, str | int | float) or not tree:
        yield _scalar(tree)
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _entry(f"{_scalar(key)}:", value)
    else:
        for item in tree:
            first, *rest = _lines(item)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)


def _entry(key: str, value: Tree) -> Iterator[str]:
    if isinstance(value, str | int | float) or not value:
        yield f"{key} {_scalar(value)}"
        return
    yield key
    yield from (f"  {line}" for line in _lines(value))


def _scalar(value: Tree) -> str:
    if isinstance(value, float):
        # Without an exponent, in which readers of 1.1 and 1.2 differ.
        return format(Decimal(repr(value)), "f")
    if not isinstance(value, str):
        return json.dumps(value)
    if _BARE.fullmatch(value) and value.lower() not in _SPECIAL:
        return value
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    return "".join(
        letter if letter.isprintable() else f"\\U{ord(letter):08X}" for letter in json.dumps(value, ensure_ascii=False)
    )
