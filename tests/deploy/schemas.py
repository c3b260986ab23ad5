"""Says what is wrong with a manifest: Kubernetes' own kinds by its own schemas, the operator's by a strict one."""

from __future__ import annotations

import json
import os
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

ROOT = Path(__file__).parents[2]
OPERATOR = json.loads(Path(__file__).with_name("operator.schema.json").read_text("utf-8"))
_STRICT = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
_DEFINITIONS = "/api/_definitions.json"


def faults(manifest: dict[str, Any]) -> list[str]:
    """Return what a cluster that knows every field would object to."""
    group, _, version = manifest["apiVersion"].rpartition("/")
    if group == "monitoring.coreos.com":
        checked = Draft202012Validator({**OPERATOR, "$ref": f"#/$defs/{manifest['kind']}"})
    else:
        checked = _of_kubernetes("-".join(filter(None, (manifest["kind"].lower(), group.partition(".")[0], version))))
    return [f"{error.json_path}: {error.message}" for error in checked.iter_errors(manifest)]


@cache
def _of_kubernetes(name: str) -> Draft202012Validator:
    return Draft202012Validator(_read(name), registry=_definitions())


@cache
def _definitions() -> Registry[Any]:
    definitions = Resource.from_contents(_read("_definitions"), DRAFT202012)
    return Registry().with_resource(_DEFINITIONS, definitions).crawl()


@cache
def _read(name: str) -> Any:
    wheel = next(ROOT.glob(".tools/kubernetes_validate-*.whl"), None)
    if wheel is None:
        told = "there are no schemas of Kubernetes; fetch them with: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    with zipfile.ZipFile(wheel) as inside:
        return json.loads(inside.read(f"{_STRICT}/{name}.json"))
