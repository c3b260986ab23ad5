"""Sizes of model files, where they tell what a model takes of a GPU."""

from __future__ import annotations

from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.versions import served

_FILES = {"onnxruntime": "model.onnx", "pytorch": "model.pt", "tensorrt": "model.plan"}


def weight_bytes(model: ModelFolder) -> int:
    """Return the bytes of the files of all versions that are served; 0 where they are not known."""
    name = _FILES.get(model.backend or "")
    paths = [model.path / str(version) / name for version in served(model) or ()] if name else []
    return sum(path.stat().st_size for path in paths if path.is_file())
