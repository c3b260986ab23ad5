"""The OpenAPI document: FastAPI's, with the schema of explanations and of problems."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from diagnostics.render.json_report import schema
from diagnostics.render.slo_json import slo_schema
from diagnostics.service.http.problems import MEDIA_TYPE, Problem

Json = dict[str, Any]
_COMPONENTS = "#/components/schemas/"
_NAME = "Explanation"
# What a route answers with instead of FastAPI's default: any problem, as one document.
PROBLEMS: dict[int | str, Json] = {
    "default": {
        "description": "No answer, and why",
        "content": {MEDIA_TYPE: {"schema": {"$ref": f"{_COMPONENTS}Problem"}}},
    }
}
EXPLANATION: dict[int | str, Json] = {
    200: {
        "description": "An explanation, as `diag explain --output json` prints it",
        "content": {
            "application/json": {"schema": {"$ref": f"{_COMPONENTS}{_NAME}"}},
            **{f"text/{kind}": {"schema": {"type": "string"}} for kind in ("plain", "markdown", "html")},
        },
    }
}
SLOS: dict[int | str, Json] = {
    200: {
        "description": "How objectives stand, as `diag slo --output json` prints it",
        "content": {
            "application/json": {"schema": {"$ref": f"{_COMPONENTS}Objectives"}},
            **{f"text/{kind}": {"schema": {"type": "string"}} for kind in ("plain", "markdown")},
        },
    }
}


def document(app: FastAPI) -> Json:
    """Return the document; made once."""
    if app.openapi_schema is None:
        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas |= {"Problem": Problem.model_json_schema()}
        schemas |= _named(_NAME, schema()) | _named("Objectives", slo_schema())
        app.openapi_schema = made
    return app.openapi_schema


@cache
def _named(name: str, written: str) -> Json:
    """Return a schema and what it refers to, by name in an OpenAPI document."""
    text = written.replace("#/$defs/", f"{_COMPONENTS}{name}_")
    whole: Json = json.loads(text)
    parts = whole.pop("$defs")
    whole.pop("$schema")
    return {name: whole, **{f"{name}_{inner}": part for inner, part in parts.items()}}
