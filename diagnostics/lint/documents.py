"""Deployment files as plain Python values: YAML documents, or a JSON value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from diagnostics.errors import CollectError
from diagnostics.lint.text_file import TextFile
from diagnostics.wire.json_body import json_value

# A template of Helm, Kustomize or Jinja becomes YAML only later; what it becomes is not known here.
_TEMPLATE_SIGNS = ("{{", "{%")
# Keys of compose files, Kubernetes' manifests, Prometheus' rules and Grafana's dashboards, as keys are written in YAML
# and JSON: what holds none of them is about something else, as vocabularies and tool settings are.
_KEYS = re.compile(r"""\b(?:services|apiVersion|groups|panels|targets)\b["']?\s*:""")
# Of large ones, what rules ask about: servers and their engines, addresses of models, and expressions. People's files
# have a few thousand lines; parsing YAML takes a second per megabyte.
_SUBJECTS = ("triton", "trtllm", "/v2/", "nv_", "expr")
_LARGE = 2**18


def concerns(file: TextFile) -> bool:
    """Return whether the file may be about a deployment, of large ones whether it is about what rules know."""
    known = len(file.text) < _LARGE or any(word in file.text for word in _SUBJECTS)
    return known and _KEYS.search(file.text) is not None


def documents_of(file: TextFile) -> tuple[Any, ...]:
    """Return the documents of a file; none of a template, which is no YAML yet.

    Raises:
        CollectError: it is neither YAML nor JSON, or YAML cannot be read because PyYAML is not installed.

    """
    try:
        if file.path.endswith(".json"):
            return (json_value(file.text.removeprefix("\ufeff")),)
        return yaml_of(file)
    except (CollectError, ValueError, RecursionError) as error:
        if any(sign in file.text for sign in _TEMPLATE_SIGNS):
            return ()
        if isinstance(error, CollectError):
            raise
        raise CollectError(f"is not JSON: {_first_line(error)}", where=file.path) from None


def inner(documents: object) -> Iterator[object]:
    """Yield every value within, outer ones first; what is written once and referred to again, once."""
    stack, seen = [documents], set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, dict | list | tuple):
            if id(value) in seen:
                continue
            seen.add(id(value))
            stack.extend(reversed(list(value.values() if isinstance(value, dict) else value)))
        yield value


def yaml_of(file: TextFile) -> tuple[Any, ...]:
    """Return the documents of a YAML file.

    Raises:
        CollectError: it is none, or cannot be read because PyYAML is not installed.

    """
    yaml = _library()
    if yaml is None:
        hint = "pip install 'triton-diagnostics[lint]'"
        raise CollectError("is not linted: PyYAML is not installed", where=file.path, hint=hint)
    try:
        return tuple(yaml.load_all(file.text, _loader(yaml)))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CollectError(f"is not YAML: {_first_line(error)}", where=file.path) from None


@cache
def _loader(yaml: Any) -> Any:
    """Return a loader of plain values; tags of other tools (`!Ref`, `!vault`) stand for values not known here."""
    loader: Any = type("_Loader", (getattr(yaml, "CSafeLoader", yaml.SafeLoader),), {})
    loader.add_multi_constructor("!", lambda *_: None)
    return loader


@cache
def _library() -> Any:
    try:
        import yaml
    except ModuleNotFoundError:
        return None
    return yaml


def _first_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
