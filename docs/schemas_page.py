"""The page of the JSON outputs: each schema's file, and every key of its document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import diagnostics.render
from diagnostics.gen.pages import table

_FOLDER = Path(diagnostics.render.__file__).parent
_VERBS = {
    "explanation": "diag explain",
    "difference": "diag diff",
    "forecast": "diag whatif",
    "tuning": "diag tune",
    "verification": "diag verify",
    "lint": "diag lint",
    "bench": "diag bench",
    "slo": "diag slo",
}
_HEAD = """\
# JSON

`--output json` prints a document with `schema_version` 1. A JSON Schema for each ships with the package.
Each schema has an `$id`, needs no other file, and holds examples.
Keys are added within a schema version. They are never renamed ([versioning](versioning.md)).
Times are Unix seconds and UTC. Everything else is in seconds, bytes and ratios.

`a.b` is key `b` of object `a`. `a[].b` is key `b` of each entry of array `a`.
"""
Json = dict[str, Any]


def schemas_page() -> str:
    """Return the page."""
    found = {path.name.partition(".")[0]: path for path in sorted(_FOLDER.glob("*.schema.json"))}
    return "\n\n".join([_HEAD.strip(), *(part for name, path in found.items() for part in _parts(name, path))])


def _parts(name: str, path: Path) -> Iterator[str]:
    whole, verb = json.loads(path.read_text("utf-8")), _VERBS.get(name, name)
    keys = _Keys(verb, whole["$defs"])
    yield f"## {verb}"
    yield f"Schema: [{path.name}](../../diagnostics/render/{path.name}), `{whole['$id']}`."
    root = keys.defs.get(whole.get("$ref", "").rpartition("/")[2], whole)
    if "properties" in root:
        yield keys.table(root)
    for inner, about in keys.defs.items():
        if about is not root and _objects(about):
            yield f"### {verb}: {inner}"
            yield keys.table(about)


@dataclass(frozen=True)
class _Keys:
    """The definitions of one schema, as tables of the page."""

    verb: str
    defs: Mapping[str, Json]

    def table(self, about: Json) -> str:
        """Return the table of the keys of an object, or of the entries of an array."""
        return table(("key", "type", "always", "meaning"), [row for one in _objects(about) for row in self._rows(one)])

    def _rows(self, about: Json, before: str = "") -> Iterator[tuple[str, str, str, str]]:
        for key, one in about["properties"].items():
            always = "yes" if key in about.get("required", ()) else "no"
            meaning = one.get("description") or self._named(one).get("description", "")
            yield f"`{before}{key}`", self._type(one), always, meaning
            inside = f"{before}{key}[]." if "items" in one else f"{before}{key}."
            for inner in _objects(one):
                yield from self._rows(inner, inside)

    def _named(self, about: Json) -> Json:
        return self.defs.get(about.get("$ref", "").rpartition("/")[2], {})

    def _type(self, about: Json) -> str:
        if "$ref" in about:
            name, meant = about["$ref"].rpartition("/")[2], self._named(about)
            return f"[{name}](#{self.verb.replace(' ', '-')}-{name.lower()})" if _objects(meant) else self._type(meant)
        if "const" in about:
            return f"`{json.dumps(about['const'])}`"
        if "enum" in about:
            return ", ".join("null" if one is None else f"`{one}`" for one in about["enum"])
        for several in ("anyOf", "allOf"):
            if several in about:
                return self._one_of(about[several])
        kind = about.get("type", "any")
        of = about.get("prefixItems") or [about[key] for key in ("items", "additionalProperties") if about.get(key)]
        shown = " or ".join(kind) if isinstance(kind, list) else kind
        return f"{shown} of {self._one_of(of)}" if of else shown

    def _one_of(self, several: Iterable[Json]) -> str:
        """Return the types, each once; null comes last, as it says that there may be nothing."""
        shown = dict.fromkeys(part for one in several for part in self._type(one).split(" or "))
        return " or ".join(sorted(shown, key=lambda part: part == "null"))


def _objects(about: Json) -> list[Json]:
    """Return the objects with keys that a schema describes in place: itself, its entries or one of several."""
    if "properties" in about:
        return [about]
    return [one for inner in (about.get("items", {}), *about.get("anyOf", ())) if inner for one in _objects(inner)]
