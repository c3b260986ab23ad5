"""JSON Schemas as tests read them: what they say of each property, and refusing keys that they do not describe."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import diagnostics.render

Schema = dict[str, Any]
NAMES = tuple(
    sorted(path.name.partition(".")[0] for path in Path(diagnostics.render.__file__).parent.glob("*.schema.json"))
)


def closed(text: str) -> Schema:
    """Return a schema that refuses keys without a description, which the published one allows for later versions."""
    whole: Schema = json.loads(text)
    extended = {ref["$ref"].rpartition("/")[2] for part in _parts(whole) for ref in part.get("allOf", ())}
    open_ones = [whole["$defs"][name] for name in extended]
    for part in _parts(whole):
        if "properties" in part and not any(part is one for one in open_ones):
            part["unevaluatedProperties"] = False
    return whole


def undescribed(schema: Schema) -> Iterator[str]:
    """Yield the properties without a description, of their own or of the definition that they refer to."""
    for part in _parts(schema):
        for name, about in part.get("properties", {}).items():
            named = schema["$defs"].get(about.get("$ref", "").rpartition("/")[2], {})
            if not about.get("description", named.get("description")):
                yield name


def _parts(of: object) -> Iterator[Schema]:
    """Yield every schema inside one."""
    if not isinstance(of, dict):
        return
    yield of
    for key, inner in of.items():
        if key in {"properties", "$defs"}:
            for one in inner.values():
                yield from _parts(one)
        elif key in {"allOf", "anyOf", "oneOf", "prefixItems"}:
            for one in inner:
                yield from _parts(one)
        elif key in {"items", "additionalProperties"}:
            yield from _parts(inner)
