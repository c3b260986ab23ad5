"""The page of the settings, from their model."""

from __future__ import annotations

import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, IPvAnyNetwork
from pydantic.fields import FieldInfo

from diagnostics.gen.pages import table
from diagnostics.settings import values
from diagnostics.settings.tree import Settings

_HEAD = """\
# Settings

`diag serve` reads a TOML file: `diag serve --config.file diag.toml`.
Check it with `diag serve --config.file diag.toml --check-config`, which prints every value and its origin.

Override a setting with an environment variable: `DIAG_COLLECT__INTERVAL=30s` sets `interval` of `[collect]`.
The file is read again after `kill -HUP`. Changed servers, deployments and discovery apply at once.

Durations have a unit: `500ms`, `15s`, `5m`, `1h30m`, `7d`. A number alone is seconds.
Sizes have one too: `4MiB`, `10GB`. A number alone is bytes.
"""
_WORDS = {str: "text", bool: "true or false", int: "integer", float: "number", Path: "path", IPvAnyNetwork: "network"}
_MARKED = {values.Seconds: "duration", values.Bytes: "size", values.Share: "ratio", values.Address: "URL"}
_ADDRESSES = {values.Posted: "URL", values.Queried: "URL", values.Shown: "URL", values.Name: "name"}
# What pydantic keeps of an annotated type are its marks.
_NAMES = {mark: word for kind, word in (_MARKED | _ADDRESSES).items() for mark in get_args(kind)[1:]}


def settings_page() -> str:
    """Return the page: a table of settings for each table of the file."""
    return "\n\n".join([_HEAD.strip(), *_sections()])


def _sections() -> Iterator[str]:
    top = []
    for name, field in Settings.model_fields.items():
        section, repeated = _section(field)
        if section is None:
            top.append(_row(name, field))
            continue
        yield from _tables(name, section, repeated=repeated)
    yield f"## Before the first table\n\n{_table(top)}"


def _tables(name: str, section: type[BaseModel], *, repeated: bool) -> Iterator[str]:
    """Yield a table of the file with its settings, then the tables within it."""
    title = f"[[{name}]]" if repeated else f"[{name}]"
    many = "One table for each. " if repeated else ""
    inner = {key: _section(one) for key, one in section.model_fields.items()}
    rows = [_row(key, one) for key, one in section.model_fields.items() if inner[key][0] is None]
    yield f"## `{title}`\n\n{many}{(section.__doc__ or '').strip()}\n\n{_table(rows)}"
    for key, (found, several) in inner.items():
        if found is not None:
            yield from _tables(f"{name}.{key}", found, repeated=several)


def _section(field: FieldInfo) -> tuple[type[BaseModel] | None, bool]:
    """Return the model of a table of settings, and whether the file may hold several of them."""
    kinds = (field.annotation, *get_args(field.annotation))
    found = next((one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), None)
    return found, get_origin(field.annotation) is tuple


def _table(rows: list[tuple[str, str, str, str]]) -> str:
    return table(("setting", "type", "default", "meaning"), rows)


def _row(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    return f"`{name}`", _type(field), _default(field), (field.description or "").replace("\n", " ")


def _type(field: FieldInfo) -> str:
    marks = [_NAMES[mark] for mark in field.metadata if mark in _NAMES]
    return marks[0] if marks else _word(field.annotation)


def _word(kind: Any) -> str:
    origin, inner = get_origin(kind), [one for one in get_args(kind) if one not in (type(None), Ellipsis)]
    if origin is Literal:
        return ", ".join(f"`{one}`" for one in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(_word(one) for one in inner)
    if origin is tuple:
        return f"list of {_word(inner[0])}"
    if origin is dict:
        return "table of text"
    marks = [_NAMES[mark] for mark in getattr(kind, "__metadata__", ()) if mark in _NAMES]
    return marks[0] if marks else _WORDS.get(kind, getattr(kind, "__name__", str(kind)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value in ("", (), {}):
        return "–"
    return f"`{_shown(field, value)}`"


def _shown(field: FieldInfo, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    kind = _type(field)
    if kind == "duration" and isinstance(value, float):
        return values.show_seconds(value)
    return _size(value) if kind == "size" and isinstance(value, int) else str(value)


def _size(size: int) -> str:
    """Return a size as a person writes it, in the largest unit of which it is whole."""
    units = (("GiB", 2**30), ("GB", 10**9), ("MiB", 2**20), ("MB", 10**6))
    return next((f"{size // of}{unit}" for unit, of in units if size % of == 0), f"{size}B")
