"""The page of the JSON outputs: each schema's file and the keys of its document."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
Keys are added within a schema version. They are never renamed ([versioning](versioning.md)).
Times are Unix seconds and UTC. Everything else is in seconds, bytes and ratios.
"""


def schemas_page() -> str:
    """Return the page."""
    found = {path.name.partition(".")[0]: path for path in sorted(_FOLDER.glob("*.schema.json"))}
    return "\n\n".join([_HEAD.strip(), *(part for name, path in found.items() for part in _parts(name, path))])


def _parts(name: str, path: Path) -> Iterator[str]:
    schema: dict[str, Any] = json.loads(path.read_text("utf-8"))
    yield f"## {_VERBS.get(name, name)}"
    yield f"Schema: [{path.name}](../../diagnostics/render/{path.name})."
    required = schema.get("required", ())
    rows = [
        (f"`{key}`", _type(about), "yes" if key in required else "no", about.get("description", ""))
        for key, about in schema.get("properties", {}).items()
    ]
    if rows:
        yield table(("key", "type", "always", "meaning"), rows)


def _type(about: dict[str, Any]) -> str:
    if "const" in about:
        return f"`{json.dumps(about['const'])}`"
    if "enum" in about:
        return ", ".join(f"`{one}`" for one in about["enum"])
    kind = about.get("type", "object" if "$ref" in about or "allOf" in about else "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
