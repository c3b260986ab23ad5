"""Instances of a model, as its configuration asks for them."""

from __future__ import annotations

from collections.abc import Iterator
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


START, READY, CORRID = "CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_CORRID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """What a control tensor passes to the model; `kind` and `tensor` are None where a template may decide."""

    kind: str | None
    tensor: str | None
    block: ConfigMessage


def batcher(model: ModelFolder) -> ConfigMessage | None:
    """Return the settings of its sequence batcher; None where it has none."""
    return model.config.block("sequence_batching") if model.config else None


def controls(batching: ConfigMessage) -> Iterator[Control]:
    """Yield the controls in order; one that names no kind is a start, protobuf's default."""
    for tensor in batching.blocks("control_input"):
        for control in tensor.blocks("control"):
            yield Control(kind=control.text("kind", START), tensor=tensor.text("name"), block=control)


def whole(batching: ConfigMessage) -> bool:
    """Return whether no template hides a control."""
    inputs = batching.blocks("control_input")
    return batching.complete and all(one.complete and one.has("control") is not None for one in inputs)


def slots(model: ModelFolder) -> int | None:
    """Return how many sequences one instance serves at a time; None when it is unknown.

    Source: Triton core, `sequence_batch_scheduler.cc`: of the strategy `oldest` its `max_candidate_sequences`, else
    the largest batch; at least 1. Seen on Triton 2.51: the next sequence waits until one ends or idles.
    """
    batching = batcher(model)
    if batching is None:
        return None
    if batching.has("oldest") is None:
        return None
    oldest = batching.block("oldest")
    most = oldest.integer("max_candidate_sequences") if oldest else model.max_batch_size
    return None if most is None else max(most, 1)
