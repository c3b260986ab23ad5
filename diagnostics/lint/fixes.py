"""The changes that problems name, as new texts of the files and as one patch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from diagnostics.errors import DiagError
from diagnostics.lint.problem import LintProblem, TextFile
from diagnostics.lint.repository import Project
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.patch import edited, unified


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """What `--fix` prints.

    Attributes:
        patch: a unified diff over all files for `patch -p1` in `folder`.
        fixed: how many problems it mends.
        refused: per problem with a change that is not in the patch, why not.
        folder: the folder that the patch's paths are below: the working folder if it holds all of them, else the root.

    """

    patch: str
    fixed: int
    refused: tuple[str, ...]
    folder: Path


def fixes_of(problems: Iterable[LintProblem], project: Project, here: Path) -> Fixes:
    """Return the changes of `problems`; of two that want one setting otherwise, the first is taken.

    Paths are shown from the folder `here`. `patch` and `git apply` refuse absolute paths, and those with `..`.
    """
    files = configurations(project)
    drafts = {path: _Draft(file.text) for path, file in files.items()}
    fixed, refused = 0, []
    for problem in problems:
        if problem.fix is None:
            continue
        draft = drafts.get(problem.place.path)
        reason = draft.apply(problem.fix, problem.place.path) if draft else "its file is not a model's configuration"
        fixed += not reason
        refused += [f"{problem.place}: {problem.rule} is not in the patch: {reason}"] if reason else []
    changed = {path: draft.text for path, draft in drafts.items() if draft.text != files[path].text}
    # Links stay as they were named, so nothing is resolved.
    places = {path: Path(os.path.normpath(here / path)) for path in changed}
    folder = here if all(place.is_relative_to(here) for place in places.values()) else Path(here.anchor)
    diffs = (
        unified(files[path].text, text, places[path].relative_to(folder).as_posix()) for path, text in changed.items()
    )
    return Fixes(patch="".join(diffs), fixed=fixed, refused=tuple(refused), folder=folder)


def fixed_text(problem: LintProblem, files: Mapping[str, TextFile]) -> tuple[str, str] | None:
    """Return the text of the problem's file before and after its change alone; None where there is none."""
    file = files.get(problem.place.path)
    if problem.fix is None or file is None:
        return None
    draft = _Draft(file.text)
    return None if draft.apply(problem.fix, file.path) else (file.text, draft.text)


class _Draft:
    def __init__(self, text: str) -> None:
        self.text = text
        self.settings: dict[str, SettingValue] = {}

    def apply(self, change: ConfigChange, path: str) -> str:
        """Change the text, and return why it cannot be changed so; empty when it was."""
        for setting in change.settings:
            if self.settings.get(setting.path, setting.value) != setting.value:
                return f"another fix sets {setting.path} to {_shown(self.settings[setting.path])}"
        if not path.isprintable():
            return "its path cannot stand in a patch"
        try:
            self.text = edited(self.text, change, path)
        except DiagError as error:
            return error.what
        self.settings |= {setting.path: setting.value for setting in change.settings}
        return ""


def _shown(value: Setting | SettingValue) -> str:
    return "nothing" if value is None else str(value)


def configurations(project: Project) -> Mapping[str, TextFile]:
    """Return the configurations that could be read, by the path to show."""
    models = (repository.models[name] for repository in project.repositories for name in sorted(repository.requested))
    return {model.config.file.path: model.config.file for model in models if model.config}
