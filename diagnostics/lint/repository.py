"""Model repositories, and the deployment's files beside them, as found below the paths that are given."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from diagnostics.errors import CollectError, reason_of
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import SourceLocation
from diagnostics.lint.text_file import joined
from diagnostics.lint.walk import Difficulty, Models, UnreadableFile, find, listed, models_among


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A model repository.

    Attributes:
        shown: its path as given by the user.
        models: its models by name, sorted.
        asked: names of those to report on; the others are only looked up by these.
        named: whether it was given itself, rather than found below a folder, or by one of its models.

    """

    path: Path
    shown: str
    models: Mapping[str, ModelFolder]
    asked: frozenset[str]
    named: bool = False

    @property
    def place(self) -> SourceLocation:
        """Return the place of the repository as a whole."""
        return SourceLocation(path=self.shown)

    @property
    def misplaced(self) -> bool:
        """Return whether it is a model, and its models are versions that a configuration was put into."""
        return all(name.isdecimal() and not model.versions for name, model in self.models.items())


@dataclass(frozen=True, kw_only=True)
class Project:
    """All that was found: repositories, deployment files by the path to show, and what could not be walked."""

    repositories: tuple[Repository, ...]
    files: Mapping[str, Path]
    troubles: tuple[UnreadableFile, ...]


def read_project(paths: Iterable[Path]) -> Project:
    """Return what is at and below `paths`: repositories, folders around them, folders or files of single models.

    Takes time in proportion to the number of folders; configurations are read when they are asked for.

    Raises:
        CollectError: a path does not exist or may not be read.

    """
    found = find(paths)
    return Project(
        repositories=tuple(_repository(path, found.models[path]) for path in sorted(found.models)),
        files=dict(sorted(found.files.items())),
        troubles=tuple(found.troubles),
    )


def troubles_of(model: ModelFolder) -> Iterator[UnreadableFile]:
    """Yield why the configuration of a model could not be read, if so."""
    problem = model.parsed
    if isinstance(problem, CollectError):
        difficulty = Difficulty.UNREADABLE if isinstance(model.file, CollectError) else Difficulty.MALFORMED
        yield UnreadableFile(
            difficulty=difficulty, place=_place(problem.where), message=problem.what, help=problem.hint
        )


def _place(where: str) -> SourceLocation:
    """Return the place that the parser names as `path:line:column`."""
    parts = where.rsplit(":", 2)
    if len(parts) == 3 and parts[1].isdecimal() and parts[2].isdecimal():
        return SourceLocation(path=parts[0], line=int(parts[1]), column=int(parts[2]))
    return SourceLocation(path=where)


def _repository(path: Path, found: Models) -> Repository:
    siblings = () if found.complete else _siblings(path)
    shown = {**{name: joined(found.shown, name) for name in siblings}, **found.names}
    models = {name: ModelFolder(name=name, path=path / name, shown=shown[name]) for name in sorted(shown)}
    return Repository(path=path, shown=found.shown, models=models, asked=frozenset(found.names), named=found.named)


def _siblings(path: Path) -> Iterator[str]:
    try:
        return models_among(listed(path))
    except OSError as error:
        raise CollectError(f"cannot be read: {reason_of(error)}", where=os.fspath(path)) from None
