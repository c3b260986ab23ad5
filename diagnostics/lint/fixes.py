"""The changes that problems name, as new texts of the files and as one patch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from diagnostics.errors import DiagError
from diagnostics.lint.problem import LintProblem, TextFile
from diagnostics.lint.repository import Project
from diagnostics.tuning.changes import ConfigChange, Setting, SettingValue
from diagnostics.tuning.patch import edited, unified


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixes:
    """What `--fix` prints.

    Attributes:
        patch: a unified diff over all files for `patch -p1` in the folder that the paths are shown from.
        fixed: how many problems it mends.
        refused: per problem with a change that is not in the patch, why not.

    """

    patch: str
    fixed: int
    refused: tuple[str, ...]


def fixes_of(problems: Iterable[LintProblem], project: Project) -> Fixes:
    """Return the changes of `problems`; of two that want one setting otherwise, the first is taken."""
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
    patch = "".join(unified(files[path].text, draft.text, path.lstrip("/")) for path, draft in drafts.items())
    return Fixes(patch=patch, fixed=fixed, refused=tuple(refused))


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
