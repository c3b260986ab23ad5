"""Model repositories that start faster than the whole reference deployment."""

from __future__ import annotations

import shutil
from pathlib import Path

from diagnostics.demo.faults import load_fault, materialise


def one_model(folder: Path) -> Path:
    """Write a repository of one model of the reference deployment into `folder`, and return it."""
    return only("preprocessing", materialise(load_fault("healthy"), folder / "small"))


def only(kept: str, repository: Path) -> Path:
    """Leave one model of a repository."""
    for model in repository.iterdir():
        if model.name != kept:
            shutil.rmtree(model)
    return repository
