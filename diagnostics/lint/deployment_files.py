"""Deployment files: YAML and JSON documents, the containers in them, their commands and their GPUs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from diagnostics.errors import CollectError
from diagnostics.lint.problem import TextFile
from diagnostics.units import parse_whole
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


_PROBING = ("serving.kserve.io/", "serving.knative.dev/")
_BESIDE = frozenset({"sdk", "client", "clients", "exporter", "analyzer", "perf", "bench", "benchmark", "test", "tests"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container: `words` are those of its command and arguments, `tree` is what is written of it.

    Attributes:
        kubernetes: whether it stands in a manifest, rather than in a compose file.
        api: of the manifest's kind, as in `serving.kserve.io/v1beta1`; empty for a compose file.

    """

    name: str
    image: str
    words: tuple[str, ...]
    environment: Mapping[str, str]
    tree: Mapping[str, Any]
    kubernetes: bool
    api: str = ""

    @property
    def runs_triton(self) -> bool:
        """Return whether its command, or else its image, is Triton's."""
        if self.words:
            return any(word.rsplit("/", 1)[-1] in ("tritonserver", "launch_triton_server.py") for word in self.words)
        return _is_server(self.image)

    @property
    def probed_by_kserve(self) -> bool:
        """Return whether KServe or Knative runs it: both probe a container's port by themselves."""
        return self.api.startswith(_PROBING)


def containers_of(documents: tuple[Any, ...]) -> Iterator[Container]:
    """Yield the containers of a file in order; none of a file that is neither kind."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("kind"), str) and "apiVersion" in document:
            yield from _of_manifest(document)
        elif isinstance(document.get("services"), dict):
            for name, service in document["services"].items():
                if isinstance(service, dict) and ("image" in service or "build" in service):
                    yield _container(str(name), service, kubernetes=False)


def _of_manifest(document: dict[str, Any]) -> Iterator[Container]:
    api = _text(document.get("apiVersion"))
    for value in inner(document):
        for container in (value.get("containers") if isinstance(value, dict) else None) or ():
            if isinstance(container, dict) and "image" in container:
                yield _container(_text(container.get("name")), container, kubernetes=True, api=api)


def _container(name: str, tree: dict[str, Any], *, kubernetes: bool, api: str = "") -> Container:
    keys = ("command", "args") if kubernetes else ("entrypoint", "command")
    words = tuple(word for key in keys for word in _words(tree.get(key)))
    environment = _environment(tree.get("env" if kubernetes else "environment"))
    image = _text(tree.get("image"))
    return Container(
        name=name, image=image, words=words, environment=environment, tree=tree, kubernetes=kubernetes, api=api
    )


def _is_server(image: str) -> bool:
    """Return whether an image is a server's: not the SDK's, whose tag is `…-py3-sdk`, nor a client's beside it."""
    name, _, tag = image.rsplit("/", 1)[-1].partition("@")[0].partition(":")
    parts = set(re.split(r"[-_.]", f"{name}-{tag}"))
    return "tritonserver" in parts and not parts & _BESIDE


def _words(written: Any) -> Iterator[str]:
    """Yield the words of a command; those of a script within (`sh -c "…"`), too."""
    for part in map(_text, written if isinstance(written, list) else [written]):
        try:
            yield from shlex.split(part, comments=True)
        except ValueError:  # a quote that a shell of another kind closes
            yield from part.split()


def _environment(written: Any) -> Mapping[str, str]:
    if isinstance(written, dict):
        return {str(key): _text(value) for key, value in written.items()}
    pairs = written if isinstance(written, list) else []
    found = {}
    for pair in pairs:
        if isinstance(pair, dict):
            found[_text(pair.get("name"))] = _text(pair.get("value"))
        else:
            key, _, value = _text(pair).partition("=")
            found[key] = value
    return found


def _text(written: Any) -> str:
    """Return a value as it is written, an empty text for what is none: aliases make a small file's trees endless."""
    return str(written) if isinstance(written, str | int | float) else ""


_NVIDIA = "nvidia.com/gpu"
_DEVICES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def gpus_given(container: Container) -> int | None:
    """Return the number of GPUs that its file limits it to; None where it says none, or all that there are.

    Source: Docker, "Compose Deploy Specification" (`devices`) and `gpus`; Kubernetes, "Schedule GPUs"; NVIDIA container
    toolkit, "Environment variables". Of several limits the smallest counts.
    """
    found = _gpus_of_manifest(container.tree) if container.kubernetes else _of_compose(container.tree)
    listed = (container.environment.get(name, "") for name in _DEVICES)
    return min([*found, *(len(text.split(",")) for text in listed if _numbers(text))], default=None)


def _numbers(text: str) -> bool:
    return bool(text) and all(parse_whole(part.strip()) is not None for part in text.split(","))


def _gpus_of_manifest(tree: Mapping[str, Any]) -> Iterator[int]:
    for kind in ("limits", "requests"):
        count = _count(_at(tree, "resources", kind).get(_NVIDIA))
        if count is not None:
            yield count


def _of_compose(tree: Mapping[str, Any]) -> Iterator[int]:
    reserved = _at(tree, "deploy", "resources", "reservations").get("devices")
    for devices in (reserved, tree.get("gpus")):
        counts = [_of_device(device) for device in devices] if isinstance(devices, list) else []
        if counts and None not in counts:
            yield sum(count or 0 for count in counts)


def _of_device(device: Any) -> int | None:
    if not isinstance(device, Mapping):
        return None
    ids = device.get("device_ids")
    return len(ids) if isinstance(ids, list) else _count(device.get("count"))


def _count(value: Any) -> int | None:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < len("10000") else None


def _at(tree: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    value: Any = tree
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
