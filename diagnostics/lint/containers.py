"""Containers of compose files and Kubernetes manifests, and the commands that they run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics.lint.documents import inner

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
