"""How many GPUs a container is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diagnostics.lint.containers import Container

_NVIDIA = "nvidia.com/gpu"
_DEVICES = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES")


def gpus_given(container: Container) -> int | None:
    """Return the number of GPUs that its file limits it to; None where it says none, or all that there are.

    Source: Docker, "Compose Deploy Specification" (`devices`) and `gpus`; Kubernetes, "Schedule GPUs"; NVIDIA container
    toolkit, "Environment variables". Of several limits the smallest counts.
    """
    found = _of_manifest(container.tree) if container.kubernetes else _of_compose(container.tree)
    listed = (container.environment.get(name, "") for name in _DEVICES)
    return min([*found, *(len(text.split(",")) for text in listed if _numbers(text))], default=None)


def _numbers(text: str) -> bool:
    return bool(text) and all(part.strip().isdecimal() for part in text.split(","))


def _of_manifest(tree: Mapping[str, Any]) -> Iterator[int]:
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
