"""What a team has decided for its repositories: which rules apply where and why, and what only it can know.

They stand in `.diag-lint.toml`, or in `pyproject.toml` below `[tool.diag.lint]`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from diagnostics.errors import CollectError, UsageError, reason_of
from diagnostics.lint.problem import LintProblem, LintSeverity, read_text
from diagnostics.settings.text_file import toml_of
from diagnostics.units import parse_duration, parse_size

FILE = ".diag-lint.toml"
_PROJECT_FILE = "pyproject.toml"
_Number = TypeVar("_Number", int, float)


class RuleSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What is decided of one rule: another severity, or why it is not applied."""

    severity: LintSeverity | None = None
    disable: str = ""


class PathSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Rules for paths: `path` is a pattern such as `models/experiments/*`, where `*` also matches `/`."""

    path: str
    rules: dict[str, RuleSettings]


class _Written(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    latency_budget: str | None = None
    gpu_memory: str | None = None
    rules: dict[str, RuleSettings] = {}
    paths: list[PathSettings] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class LintSettings:
    """Settings of a run.

    Attributes:
        latency_budget_seconds: what one request may take as a whole; None where nobody has said.
        gpu_memory_bytes: memory of one GPU of the deployment; None where nobody has said.
        rules: decisions by rule.
        paths: decisions by path; the last that matches wins, over `rules`.
        folder: what the shown paths are relative to: the folder of the settings' file.
        shown: the settings' file, as errors name it.

    """

    latency_budget_seconds: float | None = None
    gpu_memory_bytes: int | None = None
    rules: Mapping[str, RuleSettings] = field(default_factory=dict)
    paths: tuple[PathSettings, ...] = ()
    folder: Path = Path()
    shown: str = "settings"

    def decided(self, problem: LintProblem) -> RuleSettings:
        """Return what is decided of the problem's rule at its path."""
        found = self.rules.get(problem.rule, RuleSettings())
        of_rule = [one for one in self.paths if problem.rule in one.rules]
        path = os.path.relpath(problem.place.path, self.folder) if of_rule else ""
        matching = (one.rules[problem.rule] for one in of_rule if fnmatchcase(path, one.path))
        return next(iter(reversed(list(matching))), found)

    def named(self) -> frozenset[str]:
        """Return the ids of all rules that something is decided of."""
        return frozenset(self.rules).union(*(one.rules for one in self.paths))


def settings_of(file: Path) -> LintSettings:
    """Return the settings in a file.

    Raises:
        UsageError: it cannot be read, is not TOML, has a key that is not known, or a value that cannot be used.

    """
    try:
        tree = _tree(file)
    except CollectError as error:
        raise UsageError(error.what, where=str(file)) from None
    except ValueError as error:
        raise UsageError(f"is not TOML: {reason_of(error)}", where=str(file)) from None
    return _settings(_section(tree) if file.name == _PROJECT_FILE else tree, file)


def settings_file(start: Path) -> Path | None:
    """Return the file that is nearest: in the folder `start` or one around it, no further than a git repository."""
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder / FILE
        if _has_section(folder / _PROJECT_FILE):
            return folder / _PROJECT_FILE
        if (folder / ".git").exists():
            return None
    return None


def _has_section(file: Path) -> bool:
    try:
        return bool(_section(_tree(file)))
    except (CollectError, ValueError):  # somebody else's file, and not where our settings are
        return False


def _tree(file: Path) -> dict[str, Any]:
    return toml_of(read_text(file, str(file)).text)


def _section(tree: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in ("tool", "diag", "lint"):
        inner = tree.get(name)
        tree = inner if isinstance(inner, dict) else {}
    return tree


def _settings(tree: Mapping[str, Any], file: Path) -> LintSettings:
    try:
        written = msgspec.convert(tree, _Written)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        hint = f"severities are {', '.join(LintSeverity)}" if "severity" in where else ""
        place = f"{file}: {where.strip('`$.')}".rstrip(": ")
        raise UsageError(f"{what[:1].lower()}{what[1:]}", where=place, hint=hint) from None
    return LintSettings(
        latency_budget_seconds=_number(
            written.latency_budget, parse_duration, "a time such as 200ms", f"{file}: latency_budget"
        ),
        gpu_memory_bytes=_number(written.gpu_memory, parse_size, "a size such as 80GiB", f"{file}: gpu_memory"),
        rules=written.rules,
        paths=tuple(written.paths),
        folder=file.parent,
        shown=str(file),
    )


def _number(text: str | None, parse: Callable[[str], _Number | None], what: str, where: str) -> _Number | None:
    number = None if text is None else parse(text)
    if text is not None and number is None:
        raise UsageError(f"{text!r} is not {what}", where=where)
    return number
