"""Instances of a model, as its configuration asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from diagnostics import names
from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import ModelFolder, remembered

_FRAMEWORKS_ON_GPU = frozenset({"tensorrt", "onnxruntime", "pytorch", "tensorflow"})
"""Backends of which KIND_AUTO becomes KIND_GPU where there is a GPU: each supports it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """An instance group; `count` (per GPU) and `gpus` are None when unknown, no GPUs mean every GPU."""

    block: ConfigMessage
    kind: str | None
    count: int | None
    gpus: tuple[int, ...] | None


@remembered
def groups(model: ModelFolder) -> tuple[Group, ...] | None:
    """Return the groups as written, none when there are none; None when a template may stand for one."""
    if model.config is None or model.config.has("instance_group") is None:
        return None
    return tuple(_group(block) for block in model.config.blocks("instance_group"))


def instances(model: ModelFolder) -> int | None:
    """Return the number of instances on one device, 1 when nothing is written; None when it is unknown."""
    found = groups(model)
    if found is None or any(group.count is None for group in found):
        return None
    return sum(group.count or 0 for group in found) or 1


def may_run_on_gpu(model: ModelFolder) -> bool:
    """Return whether its instances run on GPUs by what is written, or by its framework where nothing is."""
    found = groups(model)
    if found is None:
        return False
    if not found:
        return model.backend in _FRAMEWORKS_ON_GPU
    return any(_on_gpu(group, model) for group in found)


def gpus_of(model: ModelFolder) -> frozenset[int] | None:
    """Return the GPUs that its groups list; None for all that there are, or unknown."""
    listed = [group.gpus for group in groups(model) or ()]
    return frozenset(gpu for gpus in listed for gpu in gpus or ()) if listed and all(listed) else None


def _on_gpu(group: Group, model: ModelFolder) -> bool:
    return group.kind == names.KIND_GPU or (group.kind == names.KIND_AUTO and model.backend in _FRAMEWORKS_ON_GPU)


def _group(block: ConfigMessage) -> Group:
    count = block.integer("count", default=1)
    return Group(
        block=block,
        kind=block.text("kind", names.KIND_AUTO),
        count=None if count is None else max(count, 1),
        gpus=block.integers("gpus"),
    )
