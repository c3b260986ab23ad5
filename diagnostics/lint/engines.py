"""Which models are engines of language models, and what their files tell of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from diagnostics import names
from diagnostics.lint.block import Text
from diagnostics.lint.model_folder import ModelFolder, remembered
from diagnostics.lint.tensors import tensors
from diagnostics.lint.text_file import TextFile

TENSORRT_LLM = "tensorrtllm"
VLLM = "vllm"
_STATIC_ENGINE = "fastertransformer"
DEFAULT_KV_FRACTION = 0.9
"""Of the memory that is free once the engine is loaded: TensorRT-LLM backend, `model_config.md`."""
# Calls through the backend itself, or as any client's, from inside a model.
_CALLS = re.compile(r"\bInferenceRequest\(|\btritonclient\b|/v2/models/")
_WRITTEN_NAME = re.compile(r"""\bmodel_name\s*=\s*f?["']([\w.\-]+)["']|/v2/models/([\w.\-]+)/""")
_OVERLAPPING = re.compile(r"\basync_exec\(|\basyncio\.|\bThreadPoolExecutor\b|\bthreading\.Thread\b")
_TRUE, _FALSE = ("True", "true", "TRUE", "1"), ("False", "false", "FALSE", "0")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltEngine:
    """An engine's own `config.json`: `path` as shown, and what `trtllm-build` wrote."""

    path: str
    tree: Mapping[str, Any]

    def integer(self, *keys: str) -> int | None:
        """Return a whole number by its keys, None when there is none."""
        value = self.value(*keys)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def value(self, *keys: str) -> Any:
        """Return what stands below these keys, None when there is nothing."""
        value: Any = self.tree
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value


@remembered
def is_engine(model: ModelFolder) -> bool | None:
    """Return whether it serves a language model that batches by itself; None when its files do not tell."""
    if model.config is None:
        return None
    if model.backend in names.ENGINE_BACKENDS or is_tensorrt_llm(model):
        return True
    if model.backend not in (names.PYTHON_BACKEND, None):
        return False
    inputs = {tensor.name for tensor in tensors(model.config, "input") or ()}
    asks = any(name.startswith(names.LLM_API_SAMPLING) for name in inputs) or names.VLLM_SAMPLING in inputs
    if asks or inputs >= names.RUNTIME_INPUTS or _has_llm_arguments(model):
        return True
    return None if model.backend is None else False


def batches_in_flight(model: ModelFolder) -> bool:
    """Return whether an engine surely adds requests to a batch that runs; FasterTransformer and `V1` do not."""
    static = model.backend == _STATIC_ENGINE or parameter(model, "gpt_model_type") in ("V1", "v1")
    return is_engine(model) is True and not static


@remembered
def is_tensorrt_llm(model: ModelFolder) -> bool:
    """Return whether the TensorRT-LLM backend's parameters stand in it, whether or not its backend is filled in."""
    return model.backend == TENSORRT_LLM or "gpt_model_type" in parameters(model)


@remembered
def parameters(model: ModelFolder) -> Mapping[str, Text]:
    """Return the backend's parameters; a value is None where a template is left, which the backend takes as unset."""
    return model.config.map("parameters") if model.config else {}


def parameter(model: ModelFolder, key: str) -> str | None:
    """Return a parameter's text; None when it is left out, empty or a template."""
    text = parameters(model).get(key)
    return (text.value or None) if text else None


def unset(model: ModelFolder, key: str) -> bool:
    """Return whether a parameter is left out for sure, rather than a template that may become any value."""
    text = parameters(model).get(key)
    hidden = any(not block.complete or not block.text("key") for block in _blocks(model))
    return (text is None or text.value == "") and not hidden and bool(model.config and model.config.complete)


def number(model: ModelFolder, key: str) -> float | None:
    """Return a parameter as a number; None when it is unset, unknown or no number."""
    text = parameter(model, key)
    try:
        found = float(text) if text else None
    except ValueError:
        return None
    return found if found is not None and math.isfinite(found) else None


def flag(model: ModelFolder, key: str) -> bool | None:
    """Return a parameter as the backend reads flags; None when it is unset, unknown or no flag."""
    text = parameter(model, key)
    return True if text in _TRUE else False if text in _FALSE else None


@remembered
def engine_of(model: ModelFolder) -> BuiltEngine | None:
    """Return what the engine was built with, where its folder can be read from here; else None."""
    folders = (parameter(model, names.ENGINE_PATH), *map(str, reversed(model.versions)))
    for folder in filter(None, folders):
        tree = model.json(f"{folder}/config.json")
        if tree is not None and "build_config" in tree:
            return BuiltEngine(path=f"{folder}/config.json", tree=tree)
    return None


@remembered
def vllm_settings(model: ModelFolder) -> Mapping[str, Any]:
    """Return the arguments in the vLLM backend's `model.json` of the newest version; nothing when there is none."""
    found = (model.json(f"{version}/model.json") for version in reversed(model.versions))
    return next((tree for tree in found if tree is not None), {})


def engine_gpus(model: ModelFolder) -> tuple[tuple[int, ...], ...]:
    """Return the GPUs of each instance as `gpu_device_ids` lists them (`0,1;2,3`); nothing when it does not."""
    written = parameter(model, "gpu_device_ids") or ""
    lists = [part.split(",") for part in written.split(";") if part.strip()]
    plain = all(number.strip().isdecimal() for one in lists for number in one)
    return tuple(tuple(int(number) for number in one) for one in lists) if plain else ()


@remembered
def calls_others(model: ModelFolder) -> bool:
    """Return whether a Python model calls models itself, by its parameters or its code."""
    if any(key.endswith(names.CALLED_MODEL) for key in parameters(model)):
        return True
    return any(_CALLS.search(file.text) for file in code_of(model))


@remembered
def called_models(model: ModelFolder) -> frozenset[str] | None:
    """Return the names of the models that a Python model calls; None when its code may call any.

    They are those of its parameters (`…_model_name`), and those that its code writes out.
    """
    named = {text.value for key, text in parameters(model).items() if key.endswith(names.CALLED_MODEL)}
    code = [file.text for file in code_of(model) if _CALLS.search(file.text)]
    written = {name for text in code for pair in _WRITTEN_NAME.findall(text) for name in pair if name}
    if (code and not named | written) or None in named:
        return None
    return frozenset(filter(None, named | written))


def keeps_several_calls_open(model: ModelFolder) -> bool:
    """Return whether an instance may wait for several calls at once: its code awaits them, or hands them to threads."""
    return any(_OVERLAPPING.search(file.text) for file in code_of(model))


@remembered
def code_of(model: ModelFolder) -> tuple[TextFile, ...]:
    """Return the `model.py` of each version of a Python model that has one."""
    if model.backend != names.PYTHON_BACKEND:
        return ()
    files = (model.read(f"{version}/model.py") for version in model.versions)
    return tuple(file for file in files if file is not None)


def _has_llm_arguments(model: ModelFolder) -> bool:
    """Return whether arguments of TensorRT-LLM's LLM API stand beside the code."""
    return any("model.yaml" in model.version_files(version) for version in model.versions)


def _blocks(model: ModelFolder) -> Iterator[Any]:
    yield from model.config.blocks("parameters") if model.config else ()
