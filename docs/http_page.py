"""The page of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostics.gen.pages import table
from diagnostics.service.http.app import OPENAPI, application
from diagnostics.service.http.context import WebContext
from diagnostics.service.service import Service
from diagnostics.settings.tree import Settings

Json = dict[str, Any]
_HEAD = f"""\
# HTTP API

`diag serve` answers at `web.listen_address`, by default `http://127.0.0.1:9177`.
The OpenAPI document is at `{OPENAPI}`. Errors are `application/problem+json` documents.

Present a token (`Authorization: Bearer …`) or a password, where [settings](settings.md) ask for one.
Paths begin with that of `web.external_url`, unless `web.route_prefix` names another.

| path | what |
| --- | --- |
| `/` | the page: verdicts, ensembles as graphs, timelines, incidents, runbooks |
| `/metrics` | [metrics](metrics.md) for Prometheus |
| `/probe?target=URL` | explains one server on demand, within `probe.allowed_networks` |
| `/v1/traces` | receives spans: OTLP over HTTP |
| `/healthz` | answers while the process lives |
| `/readyz` | answers once verdicts can be given |
"""


def http_page() -> str:
    """Return the page."""
    settings = Settings()
    service = Service(settings)
    context = WebContext(service=service, history=None, settings=settings, metrics=service.metrics)
    document = application(context).openapi()
    parts = [_HEAD.strip()]
    for path, verbs in document["paths"].items():
        for verb, about in verbs.items():
            parts += _parts(f"{verb.upper()} {path}", about, document["components"]["schemas"])
    return "\n\n".join(parts)


def _parts(title: str, about: Json, schemas: Json) -> Iterator[str]:
    yield f"## `{title}`"
    yield f"{about['summary']}. {about.get('description', '')}".strip()
    rows = [_row(one, schemas) for one in about.get("parameters", ())]
    if rows:
        yield table(("parameter", "in", "default", "meaning"), rows)


def _row(one: Json, schemas: Json) -> tuple[str, str, str, str]:
    default = one["schema"].get("default")
    shown = "required" if one.get("required") else "–" if default is None else f"`{default}`"
    meaning = one["description"].rstrip(".")
    named = schemas.get(one["schema"].get("$ref", "").rpartition("/")[2], {})
    values = ", ".join(f"`{value}`" for value in one["schema"].get("enum", named.get("enum", ())))
    return f"`{one['name']}`", one["in"], shown, f"{meaning}: {values}" if values else meaning
