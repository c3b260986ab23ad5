"""Lists of which one bad entry must not take the others away: it is refused, named, and everything else is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from diagnostics.errors import MalformedBody
from diagnostics.wire.json_body import JsonFields, excerpt

# A model's name is that of a folder (Triton, `docs/user_guide/model_repository.md`), which file systems end at 255.
LONGEST_NAME = 255
# Of refused entries, what is remembered of one body.
_MOST_REFUSED = 20
_REPLACED = "\N{REPLACEMENT CHARACTER}"
T = TypeVar("T")


class Listed(NamedTuple, Generic[T]):
    """What could be read of a list; and why the rest could not, by what it calls itself, in quotes."""

    entries: tuple[T, ...]
    refused: Mapping[str, str]


def why_no_name(name: str) -> str:
    """Return why a text cannot be a model's name; empty where it can."""
    if not name or name in (".", ".."):
        return "it is no name of a model"
    if len(name) > LONGEST_NAME:
        return f"its name is longer than {LONGEST_NAME} characters"
    if "/" in name or _REPLACED in name or not name.isprintable():
        return "its name holds a slash, a control character or half of one"
    return ""


def readable(listed: Iterable[JsonFields], read: Callable[[JsonFields], T]) -> Listed[T]:
    """Return what can be read of a list.

    Raises:
        MalformedBody: there are entries, and none can be read.

    """
    found: list[T] = []
    refused: dict[str, str] = {}
    first: MalformedBody | None = None
    for fields in listed:
        try:
            found.append(_one(fields, read))
        except MalformedBody as error:
            first = first or error
            if len(refused) < _MOST_REFUSED:
                name = fields.raw("name")
                refused[excerpt(name if isinstance(name, str) else "")] = error.what
    if first is not None and not found:
        raise first
    return Listed(tuple(found), refused)


def _one(fields: JsonFields, read: Callable[[JsonFields], T]) -> T:
    if why := why_no_name(fields.text("name")):
        raise MalformedBody(why)
    return read(fields)
