"""What all JSON documents have in common: their head, the window that they are about, and their schemas."""

from __future__ import annotations

from importlib import resources
from typing import Any

from diagnostics import __version__
from diagnostics.diagnosis.explanation import WindowFacts
from diagnostics.units import time_text

SCHEMA_VERSION = 1
"""Keys are added within a version, never renamed."""
Json = dict[str, Any]


def head(kind: str) -> Json:
    """Return what every document begins with."""
    return {"schema_version": SCHEMA_VERSION, "kind": kind, "tool": {"name": "diag", "version": __version__}}


def window_json(window: WindowFacts) -> Json:
    """Return when and from whom evidence was read; times are Unix seconds and UTC."""
    return {
        "from": window.start,
        "to": window.end,
        "from_time": time_text(window.start),
        "to_time": time_text(window.end),
        "seconds": round(window.end - window.start, 3),
        "sources": list(window.sources),
    } | ({"basis": window.basis} if window.basis else {})


def schema_text(name: str) -> str:
    """Return the JSON Schema `name` of this folder."""
    return resources.files(__package__).joinpath(f"{name}.schema.json").read_text(encoding="utf-8")
