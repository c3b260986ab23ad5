"""Says what is wrong with a manifest: Kubernetes' own kinds by its own schemas, the operator's by a strict one."""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
OPERATOR = json.loads(Path(__file__).with_name("operator.schema.json").read_text("utf-8"))
_STRICT = "kubernetes_validate/kubernetes-json-schema/v1.37.0-local-strict"
_REFERENCE = re.compile(r'#/\$defs/([^"]+)"')


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
    """Return the validator of a kind, with only what it refers to of all definitions: resolving them all takes long."""
    schema, every = _read(name), _read("_definitions")["$defs"]
    wanted: dict[str, Any] = {}
    left = _REFERENCE.findall(json.dumps(schema))
    while left:
        known = left.pop()
        if known not in wanted:
            wanted[known] = every[known]
            left += _REFERENCE.findall(json.dumps(every[known]))
    text = json.dumps({**schema, "$defs": wanted}).replace("/api/_definitions.json#", "#")
    return Draft202012Validator(json.loads(text))


@cache
def _read(name: str) -> Any:
    return json.loads(_wheel().read(f"{_STRICT}/{name}.json"))


@cache
def _wheel() -> zipfile.ZipFile:
    """Return the wheel, which is opened once: its table of contents is long."""
    wheel = next(ROOT.glob(".tools/kubernetes_validate-*.whl"), None)
    if wheel is None:
        reported = "there are no schemas of Kubernetes; fetch them with: make tools"
        if os.environ.get("CI") == "true":
            pytest.fail(reported)
        pytest.skip(reported)
    return zipfile.ZipFile(io.BytesIO(wheel.read_bytes()))
