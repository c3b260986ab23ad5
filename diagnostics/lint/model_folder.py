"""One model's folder: its configuration, its versions, and the files beside them, each read when it is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import TypeVar

from diagnostics import names
from diagnostics.errors import CollectError
from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import SourceLocation, TextFile, joined, read_text
from diagnostics.tuning.pbtxt import parse
from diagnostics.wire.json_body import json_value

CONFIG = "config.pbtxt"
TENSORRT = "tensorrt"
ENSEMBLE = "ensemble"
# The backend of a platform's older name, and of the file that a version holds: Triton core, `model_config_utils.cc`.
PLATFORMS: Mapping[str, str] = {
    "tensorrt_plan": "tensorrt",
    "onnxruntime_onnx": "onnxruntime",
    "pytorch_libtorch": "pytorch",
    "libtorch": "pytorch",  # as `torch_aoti`, of releases from 2026 on
    "torch_aoti": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
}
"""Backends by the platforms that stand for them."""
_MODEL_FILES = {
    "model.plan": "tensorrt",
    "model.onnx": "onnxruntime",
    "model.pt": "pytorch",
    "model.savedmodel": "tensorflow",
    "model.graphdef": "tensorflow",
    "model.py": "python",
    "model.xml": "openvino",
    "model.dali": "dali",
}
# Backends that load a model from its version's folder, and nowhere else.
LOADED_FROM_FOLDER = frozenset(_MODEL_FILES.values())
# Backends that do not complete what a file leaves out; others may, as TensorRT, ONNX Runtime, OpenVINO, DALI and vLLM
# do: user guide, "Auto-Generated Model Configuration". An ensemble has no backend.
_NOT_COMPLETING = frozenset({"", "pytorch", "tensorrtllm", "fastertransformer"})


@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A model. `name` is the folder's, by which the server knows it; `shown` is its path as given by the user."""

    name: str
    path: Path
    shown: str

    @property
    def place(self) -> SourceLocation:
        """Return the place of its configuration's first field, or of the folder where that is not readable."""
        return self.config.place if self.config else SourceLocation(path=self.shown)

    @cached_property
    def file(self) -> TextFile | CollectError | None:
        """Return its configuration's text, why that cannot be read, or None where it has none."""
        path = self.path / CONFIG
        if not os.path.lexists(path):
            return None
        try:
            return read_text(path, joined(self.shown, CONFIG))
        except CollectError as error:
            return error

    @cached_property
    def parsed(self) -> ConfigMessage | CollectError | None:
        """Return its configuration, what is wrong with its text, or None where it has none."""
        if not isinstance(self.file, TextFile):
            return self.file
        try:
            return ConfigMessage(file=self.file, message=parse(self.file.text, self.file.path))
        except CollectError as error:
            return error

    @property
    def config(self) -> ConfigMessage | None:
        """Return its configuration; None where it has none, or none that can be read."""
        return self.parsed if isinstance(self.parsed, ConfigMessage) else None

    @cached_property
    def entries(self) -> Mapping[str, bool]:
        """Return what is in the folder, sorted: each name, and whether it is a folder; nothing when unreadable."""
        return _entries(self.path)

    @cached_property
    def versions(self) -> tuple[int, ...]:
        """Return the versions that have a folder, sorted; a folder whose name begins with 0 is none to the server."""
        found = [name for name, folder in self.entries.items() if folder and name.isdecimal() and name.isascii()]
        return tuple(sorted(int(name) for name in found if not name.startswith("0")))

    def version_files(self, version: int) -> tuple[str, ...]:
        """Return the names of what is in a version's folder, sorted."""
        return tuple(_entries(self.path / str(version)))

    def read(self, name: str) -> TextFile | None:
        """Return a text beside the configuration, as in `1/config.json`; None when there is none that can be read."""
        try:
            return read_text(self.path / name, joined(self.shown, name))
        except CollectError:
            return None

    def json(self, name: str) -> Mapping[str, object] | None:
        """Return the object in a JSON file beside the configuration; None when there is none that can be read."""
        file = self.read(name)
        try:
            found = json_value(file.text) if file else None
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    @cached_property
    def ensemble(self) -> bool:
        """Return whether it is an ensemble, by its platform or by its steps."""
        config = self.config
        return config is not None and (config.text("platform") == ENSEMBLE or bool(config.has("ensemble_scheduling")))

    @cached_property
    def backend(self) -> str | None:
        """Return its backend as written, by its platform, or by what its versions hold; empty for an ensemble.

        None when it is unknown.
        """
        if self.config is None:
            return self._backend_of_files()
        if self.ensemble:
            return ""
        backend, platform = self.config.text("backend"), self.config.text("platform")
        if backend or backend is None or platform is None:
            return backend or None
        return PLATFORMS.get(platform) or platform or self._backend_of_files()

    def _backend_of_files(self) -> str | None:
        held = [name for version in self.versions for name in self.version_files(version)]
        found = {backend for name, backend in _MODEL_FILES.items() if name in held}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def completed(self) -> bool:
        """Return whether the server may fill in inputs, outputs and the batch size that the file leaves out."""
        if self.config is None or self.backend is None:
            return True
        if self.backend != names.PYTHON_BACKEND:
            return self.backend not in _NOT_COMPLETING
        code = [self.read(f"{version}/model.py") for version in self.versions]
        return not code or any(file is None or "auto_complete_config" in file.text for file in code)

    @cached_property
    def max_batch_size(self) -> int | None:
        """Return the largest batch, 0 where it does not batch; None when it is a template or left to the server."""
        if self.config is None:
            return None
        if self.config.has("max_batch_size") is False and self.completed:
            return None
        return self.config.integer("max_batch_size", default=0)


_Answer = TypeVar("_Answer")
_Keyed = TypeVar("_Keyed", ModelFolder, ConfigMessage)


def remembered(ask: Callable[[_Keyed], _Answer]) -> Callable[[_Keyed], _Answer]:
    """Return a function that asks each model, or block, once: rules ask the same of it many times."""
    key = f"{ask.__module__}.{ask.__qualname__}"

    @wraps(ask)
    def requested(one: _Keyed) -> _Answer:
        known: dict[str, _Answer] = one.__dict__
        if key not in known:
            known[key] = ask(one)
        return known[key]

    return requested


def _entries(path: Path) -> Mapping[str, bool]:
    try:
        with os.scandir(path) as found:
            return dict(sorted((entry.name, _is_folder(entry)) for entry in found))
    except OSError:
        return {}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def served(model: ModelFolder) -> frozenset[int] | None:
    """Return the versions that are there and that the policy serves; None when the policy is unknown.

    Source: `model_config.proto` (`ModelVersionPolicy`): the latest one when nothing is written. `latest { }` has
    protobuf's default of 0, and serves none: seen on Triton 2.51.
    """
    there = sorted(model.versions)
    policy = model.config.block("version_policy") if model.config else None
    if policy is None:
        left_out = model.config is None or model.config.has("version_policy") is False
        return frozenset(there[-1:]) if left_out else None
    specific, latest = policy.block("specific"), policy.block("latest")
    if specific is not None:
        listed = specific.integers("versions")
        return None if listed is None else frozenset(listed) & frozenset(there)
    if latest is not None:
        count = latest.integer("num_versions")
        return None if count is None else frozenset(there[-count:] if count > 0 else ())
    return frozenset(there) if policy.has("all") else None


_FILES = {"onnxruntime": "model.onnx", "pytorch": "model.pt", "tensorrt": "model.plan"}


def weight_bytes(model: ModelFolder) -> int:
    """Return the bytes of the files of all versions that are served; 0 where they are not known."""
    name = _FILES.get(model.backend or "")
    paths = [model.path / str(version) / name for version in served(model) or ()] if name else []
    return sum(path.stat().st_size for path in paths if path.is_file())
