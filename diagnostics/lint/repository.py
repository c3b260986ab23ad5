"""Finds models and deployment files below folders.

A folder is a model when it holds a `config.pbtxt`, or a version's folder with a file that Triton loads by itself; the
folder around it is a repository. Each folder is looked at once, so symbolic links that lead back end there.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from diagnostics.errors import CollectError, reason_of
from diagnostics.lint.model_folder import CONFIG, ModelFolder
from diagnostics.lint.problem import MAX_FILE_BYTES, SourceLocation, joined
from diagnostics.units import parse_whole

# What holds packages and history, and never a model repository.
_LEFT_OUT = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".mypy_cache"})
DEPLOYMENT_FILES = (".yaml", ".yml", ".json")
# Deep enough for any layout of a source tree; a bound for what only a program could have made.
_MAX_DEPTH = 32
_LOADED_BY_NAME = "model."

Entries = Sequence[os.DirEntry[str]]
Identity = tuple[int, int]


class Difficulty(StrEnum):
    """Why something was not linted."""

    MALFORMED = "malformed"
    UNREADABLE = "unreadable"
    LOOP = "loop"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableFile:
    """Something that could not be read; all else is linted."""

    difficulty: Difficulty
    place: SourceLocation
    message: str
    help: str = ""


@dataclass(slots=True, kw_only=True)
class Models:
    """Models of one repository, by name, with their paths to show.

    `complete` when the repository's folder was walked, rather than one of its models named; `named` when it was given
    itself, rather than found below a folder.
    """

    shown: str
    names: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    named: bool = False


@dataclass(slots=True, kw_only=True)
class DiscoveredFiles:
    """What was found: models by repository, deployment files by the path to show, troubles."""

    models: dict[Path, Models] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    troubles: list[UnreadableFile] = field(default_factory=list)
    seen: set[Identity] = field(default_factory=set)

    def add_files(self, entries: Entries, shown: str) -> None:
        """Add the deployment files among `entries` of the folder `shown`."""
        for entry in entries:
            # Larger ones are data: tokenizers and vocabularies are JSON, too.
            if entry.name.endswith(DEPLOYMENT_FILES):
                try:
                    if entry.is_file() and entry.stat().st_size <= MAX_FILE_BYTES:
                        self.files[joined(shown, entry.name)] = Path(entry.path)
                except OSError:  # a walk tells of it; beside a repository it is of no concern
                    continue

    def add_trouble(self, shown: str, error: OSError) -> None:
        """Add why a folder cannot be listed."""
        loops = error.errno == errno.ELOOP
        difficulty = Difficulty.LOOP if loops else Difficulty.UNREADABLE
        what = "a symbolic link leads to itself" if loops else f"cannot be read: {reason_of(error)}"
        hint = "remove the link" if loops else "give the current user read permission"
        self.troubles.append(
            UnreadableFile(difficulty=difficulty, place=SourceLocation(path=shown), message=what, help=hint)
        )


def find(paths: Iterable[Path]) -> DiscoveredFiles:
    """Return what is at and below `paths`.

    Raises:
        CollectError: a path does not exist or may not be read.

    """
    found = DiscoveredFiles()
    for path in paths:
        _add(found, path)
    return found


def listed(folder: Path | os.DirEntry[str]) -> Entries:
    """Return what a folder holds, sorted by name."""
    with os.scandir(folder) as entries:
        return sorted(entries, key=lambda entry: entry.name)


def models_among(entries: Entries) -> Iterator[str]:
    """Yield the names of the folders that are models."""
    for entry in entries:
        try:
            if entry.is_dir() and _is_model(listed(entry)):
                yield entry.name
        except OSError:  # a walk tells of it; beside a named model it is of no concern
            continue


def _add(found: DiscoveredFiles, path: Path) -> None:
    # resolve() would follow links, and lose the names that are shown.
    folder, shown = Path(os.path.abspath(path)), path.as_posix()  # noqa: PTH100
    if path.name == CONFIG:
        folder, shown = folder.parent, _parent(shown)
    elif path.is_file():
        found.files[shown] = path
        return
    try:
        entries = listed(folder)
    except OSError as error:
        raise CollectError(f"cannot be read: {reason_of(error)}", where=shown, hint="name a model repository") from None
    if _is_model(entries):
        models = found.models.setdefault(folder.parent, Models(shown=_parent(shown), complete=False))
        models.names[folder.name] = shown
        return
    _walk(found, folder, shown, entries, {})
    if folder in found.models:
        found.models[folder].named = True
    if folder in found.models and not (folder / ".git").exists():
        _add_files_beside(found, folder, shown)


def _add_files_beside(found: DiscoveredFiles, folder: Path, shown: str) -> None:
    """Add compose files and manifests, which often stand beside a repository's folder."""
    try:
        found.add_files(listed(folder.parent), _parent(shown))
    except OSError as error:
        found.add_trouble(_parent(shown), error)


def _walk(found: DiscoveredFiles, folder: Path, shown: str, entries: Entries, above: dict[Identity, str]) -> None:
    here = _identity(folder)
    if here in above:
        what = f"a symbolic link leads back to {above[here]}"
        place = SourceLocation(path=shown)
        found.troubles.append(
            UnreadableFile(difficulty=Difficulty.LOOP, place=place, message=what, help="remove the link")
        )
    if here in found.seen or len(above) > _MAX_DEPTH:
        return
    found.seen.add(here)
    found.add_files(entries, shown)
    for entry in entries:
        if entry.name not in _LEFT_OUT:
            _enter(found, folder, joined(shown, entry.name), entry, {**above, here: shown})


def _enter(
    found: DiscoveredFiles, folder: Path, shown: str, entry: os.DirEntry[str], above: dict[Identity, str]
) -> None:
    try:
        if not entry.is_dir():
            return
        inner = listed(entry)
        if not _is_model(inner):
            _walk(found, folder / entry.name, shown, inner, above)
            return
    except OSError as error:
        found.add_trouble(shown, error)
        return
    models = found.models.setdefault(folder, Models(shown=_parent(shown)))
    models.names[entry.name] = shown
    models.complete = True


def _is_model(entries: Entries) -> bool:
    if any(entry.name == CONFIG for entry in entries):
        return True
    versions = [entry for entry in entries if parse_whole(entry.name) is not None and entry.is_dir()]
    return any(inner.name.startswith(_LOADED_BY_NAME) for version in versions for inner in listed(version))


def _identity(folder: Path) -> Identity:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _parent(shown: str) -> str:
    head, _, last = shown.rstrip("/").rpartition("/")
    if last in ("", ".", ".."):
        return joined(shown or "/", "..") if last else "/"
    return head or ("/" if shown.startswith("/") else ".")


@dataclass(frozen=True, kw_only=True)
class Repository:
    """A model repository.

    Attributes:
        shown: its path as given by the user.
        models: its models by name, sorted.
        requested: names of those to report on; the others are only looked up by these.
        named: whether it was given itself, rather than found below a folder, or by one of its models.

    """

    path: Path
    shown: str
    models: Mapping[str, ModelFolder]
    requested: frozenset[str]
    named: bool = False

    @property
    def place(self) -> SourceLocation:
        """Return the place of the repository as a whole."""
        return SourceLocation(path=self.shown)

    @property
    def misplaced(self) -> bool:
        """Return whether it is a model, and its models are versions that a configuration was put into."""
        return all(parse_whole(name) is not None and not model.versions for name, model in self.models.items())


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
    return Repository(path=path, shown=found.shown, models=models, requested=frozenset(found.names), named=found.named)


def _siblings(path: Path) -> Iterator[str]:
    try:
        return models_among(listed(path))
    except OSError as error:
        raise CollectError(f"cannot be read: {reason_of(error)}", where=os.fspath(path)) from None
