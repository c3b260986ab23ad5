"""The OpenAPI document: FastAPI's, with the schema of explanations and of problems."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from diagnostics.render.explanation.json import schema
from diagnostics.render.forecast.json import forecast_schema
from diagnostics.render.slo.json import slo_schema
from diagnostics.service.http.credentials import Credentials
from diagnostics.service.http.examples import EXAMPLES, PROBLEM
from diagnostics.service.http.problems import MEDIA_TYPE, HttpProblem
from diagnostics.service.http.rendering import HEADERS

Json = dict[str, Any]
_COMPONENTS = "#/components/schemas/"
_NAME = "Explanation"
NOW, PAST, OBJECTIVES, PEOPLE = "Now", "Past", "Objectives", "People"
TAGS: list[Json] = [
    {"name": NOW, "description": "The newest verdicts, the servers that are watched, and the checks."},
    {"name": PAST, "description": "Incidents, verdicts and signals over time, and any moment of the past."},
    {"name": OBJECTIVES, "description": "Error budgets, burn rates, and what spent the budgets."},
    {"name": PEOPLE, "description": "What people tell the service: acknowledgements, maintenance, events."},
]
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
        "headers": {
            name: {"description": reported, "schema": {"type": "string"}} for name, reported in HEADERS.items()
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
FORECASTS: dict[int | str, Json] = {
    200: {
        "description": "A forecast, as `diag whatif --output json` prints it",
        "content": {
            "application/json": {"schema": {"$ref": f"{_COMPONENTS}Forecast"}},
            **{f"text/{kind}": {"schema": {"type": "string"}} for kind in ("plain", "markdown")},
        },
    }
}


_PASSWORD = {"type": "http", "scheme": "basic", "description": "A user of web.config_file."}
_TOKEN = {"type": "http", "scheme": "bearer", "description": "The token of web.bearer_token_file."}
_CERTIFICATE = {"type": "mutualTLS", "description": "A certificate that web.config_file's authorities vouch for."}


def document(app: FastAPI, credentials: Credentials, links: str) -> Json:
    """Return the document of a service that is reached below the path `links`, and asks for credentials as it does now.

    What does not depend on the credentials is made once.
    """
    made = _routes(app)
    schemes, wanted = _security(credentials)
    components = {**made["components"], **({"securitySchemes": schemes} if schemes else {})}
    servers = [{"url": links or "/", "description": "This service."}]
    return {**made, "servers": servers, "components": components, **({"security": wanted} if wanted else {})}


def _security(credentials: Credentials) -> tuple[Json, list[Json]]:
    """Return the schemes that are configured, and which of them together let someone in; either may be empty."""
    config = credentials.config
    one_of = {
        name: scheme
        for name, scheme, requested in (("password", _PASSWORD, config.users), ("token", _TOKEN, credentials.token))
        if requested
    }
    always = {"certificate": _CERTIFICATE} if config.certificates_required else {}
    ways = [[name, *always] for name in one_of] or [[*always]]
    return {**one_of, **always}, [{name: [] for name in way} for way in ways if way]


def _routes(app: FastAPI) -> Json:
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=app.openapi_tags,
        )
        schemas = made.setdefault("components", {}).setdefault("schemas", {})
        schemas |= {"Problem": {**HttpProblem.model_json_schema(), "examples": [PROBLEM]}}
        schemas |= _named(_NAME, schema()) | _named("Objectives", slo_schema()) | _named("Forecast", forecast_schema())
        _add_examples(made)
        app.openapi_schema = made
    return app.openapi_schema


def _add_examples(made: Json) -> None:
    """Give each answer in JSON an example: that of its own, or of its schema."""
    of_schemas = {name: one["examples"][0] for name, one in made["components"]["schemas"].items() if "examples" in one}
    for operation in (one for methods in made["paths"].values() for one in methods.values()):
        for answer in operation["responses"].values():
            for kind in {"application/json", MEDIA_TYPE} & answer["content"].keys():
                held = answer["content"][kind]
                named = held["schema"].get("$ref", "").removeprefix(_COMPONENTS)
                held["example"] = of_schemas.get(named) or EXAMPLES[operation["operationId"]]


@cache
def _named(name: str, written: str) -> Json:
    """Return a schema and what it refers to, by name in an OpenAPI document."""
    text = written.replace("#/$defs/", f"{_COMPONENTS}{name}_")
    whole: Json = json.loads(text)
    parts = whole.pop("$defs")
    # A name of its own would be what references inside it are relative to.
    del whole["$schema"], whole["$id"]
    return {name: whole, **{f"{name}_{inner}": part for inner, part in parts.items()}}
