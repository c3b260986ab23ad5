"""How many GPUs an engine of a language model is spread over, by its own files."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from diagnostics.lint.engines import VLLM, BuiltEngine, engine_of, is_tensorrt_llm, vllm_settings
from diagnostics.lint.llm_api import llm_arguments
from diagnostics.lint.model_folder import ModelFolder, remembered

_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size")


@remembered
def ranks(model: ModelFolder) -> int | None:
    """Return the ranks of one instance of an engine, each of which takes a GPU; None where its files do not say."""
    if model.backend == VLLM:
        return parallel(vllm_settings(model))
    written = llm_arguments(model)
    if written is not None:
        return None if written.trouble else parallel(written.tree)
    engine = engine_of(model) if is_tensorrt_llm(model) else None
    return ranks_of(engine) if engine else None


def ranks_of(engine: BuiltEngine) -> int | None:
    """Return the ranks that an engine was built for; None when its `config.json` does not say it."""
    mapping = ("pretrained_config", "mapping")
    world = engine.integer(*mapping, "world_size")
    tensor, pipeline = engine.integer(*mapping, "tp_size"), engine.integer(*mapping, "pp_size")
    return world or (tensor * pipeline if tensor and pipeline else None)


def parallel(settings: Mapping[str, Any]) -> int | None:
    """Return tensor × pipeline parallelism, each 1 where it is left out; None where one is no whole number."""
    sizes = [settings.get(key, 1) for key in _PARALLEL]
    return prod(sizes) if all(type(size) is int and size > 0 for size in sizes) else None
