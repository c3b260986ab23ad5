"""Faults of the reference deployment: small overlays on its healthy model repository.

A fault is a folder `faults/<name>/` with `fault.toml` and full replacements of the files that differ,
at the places they have in the repository. `release/` inside it holds what a release during the run replaces.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from diagnostics.demo.environment import reference_root
from diagnostics.errors import UsageError
from diagnostics.loadgen.load import LoadProfile, Pattern

_OVERLAY_ONLY = ("fault.toml", "release")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A new version of one model that goes live while the load runs.

    Attributes:
        at: seconds after the load's start.
        model: the model.
        version: its new version, made from version 1.
        changes: the fields that change against the running configuration, as in `Fault.changes`.

    """

    at: float
    model: str
    version: str
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoFault:
    """One known cause on the reference deployment, with the load that brings it out.

    Attributes:
        name: its folder's name.
        title: what is wrong, in a few words.
        does: the same in one sentence with its numbers.
        check: the check that must name it; None for the healthy deployment.
        layer: the layer of that check; None for the healthy deployment.
        model: the model it must name; None for the healthy deployment.
        version: the version it must name, where one is meant.
        changes: `<model>.<field of config.pbtxt>` of everything that differs from the healthy deployment.
        load: the load to put on it.
        release: a release during the run, if the fault needs one.
        folder: where its files are.

    """

    name: str
    title: str
    does: str
    check: str | None
    layer: str | None
    model: str | None
    version: str | None
    changes: tuple[str, ...]
    load: LoadProfile
    release: Release | None
    folder: Path


def fault_names(root: Path | None = None) -> tuple[str, ...]:
    """Return the names of all faults, sorted; `healthy` is one of them."""
    folder = (root or reference_root()) / "faults"
    return tuple(sorted(entry.parent.name for entry in folder.glob("*/fault.toml")))


def load_fault(name: str, root: Path | None = None) -> DemoFault:
    """Return the fault `name`.

    Raises:
        UsageError: there is no such fault.

    """
    folder = (root or reference_root()) / "faults" / name
    if name not in fault_names(root):
        raise UsageError(f"there is no fault {name!r}", hint=f"choose one of {', '.join(fault_names(root))}")
    return _fault(folder, tomllib.loads((folder / "fault.toml").read_text("utf-8")))


def _fault(folder: Path, table: Mapping[str, Any]) -> DemoFault:
    return DemoFault(
        name=folder.name,
        title=table["title"],
        does=table["does"],
        check=table.get("check"),
        layer=table.get("layer"),
        model=table.get("model"),
        version=table.get("version"),
        changes=tuple(table.get("changes", ())),
        load=_load(table["load"]),
        release=_release(table.get("release")),
        folder=folder,
    )


def _load(table: Mapping[str, Any]) -> LoadProfile:
    return LoadProfile(
        model=table["model"],
        pattern=Pattern(table["pattern"]),
        rate=float(table.get("rate", 0)),
        concurrency=table.get("concurrency", 0),
        burst=table.get("burst", 1),
        duration=float(table["duration_seconds"]),
        max_tokens=table["max_tokens"],
        seed=table["seed"],
    )


def _release(table: Mapping[str, Any] | None) -> Release | None:
    if table is None:
        return None
    return Release(
        at=float(table["at_seconds"]),
        model=table["model"],
        version=table["version"],
        changes=tuple(table["changes"]),
    )


def materialise(fault: DemoFault, into: Path, root: Path | None = None) -> Path:
    """Write the fault's model repository to the new folder `into` and return it.

    Every version folder gets a copy of the modules that the stages share, since Triton gives a Python
    model nothing but its own folder; every model gets a version folder, which git does not keep if empty.
    """
    source = root or reference_root()
    shutil.copytree(source / "model_repository", into, ignore=shutil.ignore_patterns("__pycache__"))
    _overlay(fault.folder, into)
    for model in sorted(entry for entry in into.iterdir() if entry.is_dir()):
        (model / "1").mkdir(exist_ok=True)
    for script in into.glob("*/*/model.py"):
        _share(source / "common", script)
    return into


def _overlay(folder: Path, into: Path) -> None:
    for entry in folder.iterdir():
        if entry.name not in _OVERLAY_ONLY:
            shutil.copytree(entry, into / entry.name, dirs_exist_ok=True)


def _share(common: Path, script: Path) -> None:
    text = script.read_text("utf-8")
    for module in common.glob("*.py"):
        if f"from {module.stem} import" in text:
            shutil.copy(module, script.parent)


def make_release(fault: DemoFault, repository: Path) -> Release:
    """Put the fault's release into a repository that a server runs from; loading it is the caller's act.

    Raises:
        UsageError: the fault has no release.

    """
    release = fault.release
    if release is None:
        raise UsageError(f"the fault {fault.name!r} has no release", hint="choose cold-start")
    model = repository / release.model
    shutil.copytree(model / "1", model / release.version, ignore=shutil.ignore_patterns("__pycache__"))
    for path in _files(fault.folder / "release"):
        _replace(path, repository / path.relative_to(fault.folder / "release"))
    return release


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _replace(source: Path, target: Path) -> None:
    # A server may read the repository at any moment: it sees the old file or the new one.
    partial = target.with_name(f".{target.name}.new")
    shutil.copy(source, partial)
    partial.replace(target)
