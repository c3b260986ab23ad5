"""The chart's manifests as Helm renders them, the plain ones as they are committed, and how selectors read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml

from deploy.__main__ import PLAIN, VARIANTS, rendered

Manifest = dict[str, Any]
# Safe, too, and ten times as fast.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def chart(variant: str) -> tuple[Manifest, ...]:
    """Return what Helm makes with the values of a variant."""
    return tuple(documents(rendered(VARIANTS[variant])))


def plain(variant: str) -> tuple[Manifest, ...]:
    """Return the committed manifests of a variant, without what it takes from other folders."""
    texts = {path.name: path.read_text("utf-8") for path in (PLAIN / variant).glob("*.yaml")}
    return tuple(one for one in documents(texts) if one["kind"] != "Kustomization")


def documents(texts: Mapping[str, str]) -> Iterator[Manifest]:
    """Yield every manifest of some files."""
    for text in texts.values():
        yield from filter(None, yaml.load_all(text, Loader=_LOADER))


def of(manifests: tuple[Manifest, ...], kind: str, name: str = "diag") -> Manifest:
    """Return the one of a kind and name."""
    (found,) = (one for one in manifests if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


def workload(manifests: tuple[Manifest, ...]) -> Manifest:
    """Return the Deployment or StatefulSet."""
    (found,) = (one for one in manifests if one["kind"] in ("Deployment", "StatefulSet"))
    return found


def container(manifests: tuple[Manifest, ...]) -> Manifest:
    """Return its only container."""
    (found,) = workload(manifests)["spec"]["template"]["spec"]["containers"]
    return dict(found)


def environment(manifests: tuple[Manifest, ...]) -> dict[str, str]:
    """Return the container's variables that have a value."""
    return {one["name"]: one["value"] for one in container(manifests)["env"] if "value" in one}


def selects(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Return whether a selector, which must ask for something, takes these labels."""
    return bool(selector) and selector.items() <= labels.items()
