"""The page of the HTTP API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostics.gen.pages import table
from diagnostics.service.http.app import OPENAPI, application
from diagnostics.service.http.context import WebContext
from diagnostics.service.service import Service
from diagnostics.settings.tree import Settings

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
    paths: dict[str, dict[str, dict[str, Any]]] = application(context).openapi()["paths"]
    return "\n\n".join([_HEAD.strip(), *(_section(path, verbs) for path, verbs in paths.items())])


def _section(path: str, verbs: dict[str, dict[str, Any]]) -> str:
    return "\n\n".join(part for verb, about in verbs.items() for part in _parts(f"{verb.upper()} {path}", about))


def _parts(title: str, about: dict[str, Any]) -> Iterator[str]:
    yield f"## `{title}`"
    yield f"{about['summary']}. {about.get('description', '')}".strip()
    rows = [
        (f"`{one['name']}`", one["in"], "yes" if one.get("required") else "no", one.get("description", ""))
        for one in about.get("parameters", ())
    ]
    if rows:
        yield table(("parameter", "in", "required", "meaning"), rows)
