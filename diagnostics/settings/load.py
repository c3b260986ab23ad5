"""Finds the line of a TOML file that a setting stands in: the reader of the format does not give it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from diagnostics.errors import UsageError
from diagnostics.settings.addresses import shown, without_credentials
from diagnostics.settings.text_file import text_of, toml_of
from diagnostics.settings.tree import Settings
from diagnostics.spelling import among, meant

_DEEPEST = 64
_TABLE = re.compile(r"\s*\[\s*([\w.-]+)\s*\]")
_LISTED = re.compile(r"\s*\[\[\s*([\w.-]+)\s*\]\]")
_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*=""")


def line_of(lines: Mapping[str, int], name: str) -> int | None:
    """Return the line (from 1) of a setting by its dotted name, as in `server.0.url`; None where it is not seen.

    A name of a section stands for its heading. Settings within inline tables are found at the line of their table.
    """
    return next((lines[outer] for outer in around(name) if outer in lines), None)


def around(name: str) -> Iterator[str]:
    """Yield a dotted name and those of the sections around it, the innermost first; a quoted key may hold any dots."""
    parts = name.split(".", _DEEPEST)[:_DEEPEST]
    yield name
    yield from (".".join(parts[:length]) for length in range(len(parts), 0, -1))


def lines_of(text: str) -> Mapping[str, int]:
    """Return the line of each heading and key by dotted name."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if listed := _LISTED.match(line):
            position = counts[listed[1]] = counts.get(listed[1], -1) + 1
            section = f"{listed[1]}.{position}"
            found[section] = number
        elif table := _TABLE.match(line):
            section = table[1]
            found[section] = number
        elif key := _KEY.match(line):
            name = key[1] or key[2] or key[3]
            found.setdefault(f"{section}.{name}" if section else name, number)
    return found


PREFIX = "DIAG_"
# Between a section's name and a key's, as both hold single ones: DIAG_WEB__LISTEN_ADDRESS.
SEPARATOR = "__"
DEFAULT = "default"
_UNKNOWN = "extra_forbidden"
# What is wrong by pydantic's name for it, where its own words are those of Python.
_MEANT = {
    _UNKNOWN: "there is no such setting",
    "model_type": "is a section with keys, not a value",
    "tuple_type": "is a list: write values as ['…'], and sections as [[…]]",
    "dict_type": "is a table, as in { name = 'value' }",
    "too_short": "is empty: name at least one",
    "path_type": "is no path",
}
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The settings, and where the values that are not defaults came from, by dotted name."""

    settings: Settings
    origins: Mapping[str, str]

    def where(self, name: str) -> str:
        """Return a setting's dotted name with where its value came from, as messages begin."""
        return _where(name, self.origins)

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """Yield (name, value, origin) of every setting in order. Credentials of URLs are left out."""
        for name, value in _flat(self.settings.model_dump(mode="json")):
            yield name, _spelled(value, address=_is_address(name)), self.origins.get(name, DEFAULT)


def load(
    file: Path | None, environment: Mapping[str, str], flags: Mapping[str, str], servers: Sequence[str] = ()
) -> Loaded:
    """Return the settings; a flag wins over the environment, that over the file, that over the default.

    Args:
        file: a TOML file; None for none.
        environment: variables; those that begin with `DIAG_` and hold `__` are settings.
        flags: values by dotted name, as in `web.listen_address`.
        servers: URLs of further servers, from the command line.

    Raises:
        UsageError: the file cannot be read, a name is not known, or a value cannot be used.

    """
    tree: Tree = {}
    origins: dict[str, str] = {}
    if file is not None:
        text = text_of(file, "utf-8-sig")  # editors of Windows begin a file with a byte order mark
        tree = _parsed(file, text)
        lines = lines_of(text)
        origins |= {name: _place(file, lines, name) for name, _ in _flat(tree)}
    _refuse_near_names(environment)
    for variable, value in sorted(environment.items()):
        if variable.startswith(PREFIX) and SEPARATOR in variable:
            name = variable.removeprefix(PREFIX).lower().replace(SEPARATOR, ".")
            _set(tree, name, value, variable)
            origins[name] = variable
    for name, value in flags.items():
        origins[name] = _flag(name)
        _set(tree, name, value, origins[name])
    _add_servers(tree, origins, servers)
    return Loaded(settings=_valid(tree, origins), origins=origins)


def _refuse_near_names(environment: Mapping[str, str]) -> None:
    """Refuse a variable that would be a setting with two underscores after its section: it would not be read."""
    sections = {name: field.annotation for name, field in Settings.model_fields.items()}
    keys = {
        f"{PREFIX}{name}_{key}".upper(): f"{PREFIX}{name}{SEPARATOR}{key}".upper()
        for name, section in sections.items()
        if isinstance(section, type) and issubclass(section, BaseModel)
        for key in section.model_fields
    }
    for variable in sorted(environment.keys() & keys.keys()):
        hint = f"write {keys[variable]}, or unset it"
        raise UsageError("is no setting, for want of an underscore", where=variable, hint=hint)


def _flag(name: str) -> str:
    """Return the flag of a setting, as Prometheus' programs spell it: `--web.listen-address`, `--web.config.file`."""
    return f"--{name.replace('config_file', 'config.file').replace('_', '-')}"


def _add_servers(tree: Tree, origins: dict[str, str], urls: Sequence[str]) -> None:
    written = tree.setdefault("server", []) if urls else []
    known = {one.get("url") for one in written if isinstance(one, dict)} if isinstance(written, list) else set()
    for url in dict.fromkeys(urls):
        if url not in known and isinstance(written, list):
            origins[f"server.{len(written)}.url"] = "command line"
            written.append({"url": url})


def _parsed(file: Path, text: str) -> Tree:
    try:
        return toml_of(text)
    except ValueError as error:
        raise UsageError(f"is not TOML: {str(error)[:1].lower()}{str(error)[1:]}", where=str(file)) from None


def _place(file: Path, lines: Mapping[str, int], name: str) -> str:
    line = line_of(lines, name)
    return f"{file}:{line}" if line else str(file)


def _set(tree: Tree, name: str, value: str, origin: str) -> None:
    """Put a text at a dotted name. Lists of plain values are written with commas between them."""
    *sections, key = name.split(".")
    known: Any = Settings
    for section in sections:
        known = _field_type(known, section, origin)
        if not (isinstance(known, type) and issubclass(known, BaseModel)):
            raise UsageError("only values in single sections can be set so", where=origin, hint="use the file")
        tree = tree.setdefault(section, {})
    kind = _field_type(known, key, origin)
    tree[key] = [part.strip() for part in value.split(",") if part.strip()] if str(kind).startswith("tuple") else value


def _field_type(model: type[BaseModel], name: str, origin: str) -> Any:
    if name not in model.model_fields:
        hint = meant(name, model.model_fields) or "`diag serve --check-config` lists them"
        raise UsageError(f"there is no setting {name!r}", where=origin, hint=hint)
    return model.model_fields[name].annotation


def _valid(tree: Tree, origins: Mapping[str, str]) -> Settings:
    try:
        return Settings.model_validate(tree)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        # A mistyped name is often why another one is missing.
        first, *others = sorted(errors, key=lambda one: one["type"] != _UNKNOWN)
        hints = [_known_beside(first["loc"])] if first["type"] == _UNKNOWN else []
        hints += [f"also {_at(one['loc'], origins)}: {_reported(one['msg'], one['type'])}" for one in others[:_MOST]]
        hint = "; ".join(hints)
        raise UsageError(_reported(first["msg"], first["type"]), where=_at(first["loc"], origins), hint=hint) from None


# Mistakes of one file that a message names beside the first.
_MOST = 5
_Place = tuple[int | str, ...]


def _at(place: _Place, origins: Mapping[str, str]) -> str:
    return _where(".".join(str(part) for part in place), origins)


def _known_beside(place: _Place) -> str:
    """Return a hint for a name that is no setting: what was meant, and which settings its section has."""
    model: Any = Settings
    for part in place[:-1]:
        kind = model if isinstance(part, int) else model.model_fields[part].annotation
        model = next(
            (one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, BaseModel)), None
        )
        if model is None:
            return ""
    names = [str(part) for part in place[:-1] if not isinstance(part, int)]
    return among(str(place[-1]), sorted(model.model_fields), f"settings of {'.'.join(names)}" if names else "sections")


def _where(name: str, origins: Mapping[str, str]) -> str:
    origin = _origin_of(name, origins)
    return f"{origin}: {name}" if origin else name


def _origin_of(name: str, origins: Mapping[str, str]) -> str:
    """Return where a setting, or else the first below or around it, comes from; empty when that is not known."""
    for outer in around(name):
        for known, origin in origins.items():
            if known == outer or known.startswith(f"{outer}."):
                return origin
    return ""


def _reported(message: str, kind: str) -> str:
    if kind in _MEANT:
        return _MEANT[kind]
    plain = message.removeprefix("Value error, ")
    return plain[:1].lower() + plain[1:]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for position, inner in enumerate(value):
            yield from _flat(inner, f"{name}.{position}")
    else:
        yield name, value


def _is_address(name: str) -> bool:
    return name.rpartition(".")[2].endswith(("url", "urls", "servers", "database"))


def _spelled(value: Any, *, address: bool) -> str:
    if isinstance(value, list):
        return ", ".join(_spelled(one, address=address) for one in value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return shown(str(value)) if address else without_credentials(str(value))
