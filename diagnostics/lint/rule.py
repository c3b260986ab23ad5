"""What a rule is made of: its declaration, what it sees, and the situations that it is tested with.

A rule is one file below `rules/`: a docstring (a title line and the sections of `HEADINGS`), `RULE`, `CASES`, and
`lint(view)`, which yields `view.problem(…)` for each problem of one subject of the rule's scope. Its id is the file's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity, SourceLocation, TextFile
from diagnostics.lint.queries import Expression
from diagnostics.lint.repository import Project, Repository, UnreadableFile
from diagnostics.lint.settings import LintSettings
from diagnostics.lint.waivers import Waiver
from diagnostics.tuning.changes import ConfigChange
from diagnostics.units import Limit

# Sentences of rules have up to 200 characters; names in files have no bound.
_LONGEST = 600
HEADINGS = ("Looks for", "Means", "Do", "Sources")


class RuleScope(StrEnum):
    """What a rule is asked about, each once."""

    MODEL = "model"
    """A model whose configuration could be read and which is no ensemble: `ConfiguredModelView`."""
    ENSEMBLE = "ensemble"
    """An ensemble: `ConfiguredModelView`."""
    ANY_MODEL = "any-model"
    """A model or an ensemble: `ConfiguredModelView`."""
    REPOSITORY = "repository"
    """A repository with all its models: `RepositoryView`."""
    DEPLOYMENT_FILE = "deployment-file"
    """A compose file, Kubernetes manifest or other YAML or JSON file: `FileView`."""
    QUERY = "query"
    """An expression of Prometheus' rules or of a Grafana panel in such a file: `QueryView`."""
    READING = "reading"
    """Something that could not be read: `TroubleView`."""
    WAIVER = "waiver"
    """A waiver, after all other rules: `WaiverView`."""


class LintTopic(StrEnum):
    """What to ask of an endpoint before it is deployed; each rule helps to answer one."""

    ENSEMBLE = "Is the pipeline an ensemble, or scattered?"
    BATCHING = "Is dynamic batching on, with a window that fits the latency budget?"
    OVERLAP = "Has each cheap stage enough instances to overlap?"
    PACKING = "Are small models packed, and large ones alone?"
    COMPILED = "Is only the stable, hot model compiled?"
    WARM = "Is each version warm before it serves?"
    FITS = "Do models, versions and tensors fit together?"
    ENGINE = "Is the engine set for its load?"
    QUEUE = "Do queues refuse what they cannot serve in time?"
    DEPLOYMENT = "Is it deployed as a production endpoint?"
    WATCHED = "Do dashboards and alerts say what happens?"
    READABLE = "Can everything be read?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The declared part of a rule.

    Attributes:
        severity: of its problems, where `view.problem` says no other.
        limits: every number it compares with, by name; `because` gives reason and source.

    """

    scope: RuleScope
    severity: LintSeverity
    question: LintTopic
    limits: Mapping[str, Limit] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RuleView:
    """What every rule sees: the settings, all that was read, and how to report a problem."""

    rule: str
    severity: LintSeverity
    settings: LintSettings
    project: Project

    def problem(
        self,
        message: str,
        *,
        at: SourceLocation,
        help: str = "",
        fix: ConfigChange | None = None,
        severity: LintSeverity | None = None,
    ) -> LintProblem:
        """Return a problem of this rule; `severity` other than the rule's where it is less sure, or worse."""
        chosen = severity or self.severity
        return LintProblem(
            rule=self.rule, severity=chosen, place=at, message=_bounded(message), help=_bounded(help), fix=fix
        )


def _bounded(text: str) -> str:
    """Return a sentence that fits a few lines, whatever names a file holds."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


@dataclass(frozen=True, kw_only=True)
class ConfiguredModelView(RuleView):
    """One model, the repository around it, and its configuration."""

    model: ModelFolder
    repository: Repository
    config: ConfigMessage

    def named(self, name: str) -> ModelFolder | None:
        """Return the model of this name, of the same repository before others that were read; None when missing."""
        every = (self.repository, *self.project.repositories)
        return next((one.models[name] for one in every if name in one.models), None)


@dataclass(frozen=True, kw_only=True)
class RepositoryView(RuleView):
    """One repository."""

    repository: Repository


@dataclass(frozen=True, kw_only=True)
class FileView(RuleView):
    """One deployment file; `documents` are its YAML documents, or the JSON value, as plain Python values."""

    file: TextFile
    documents: tuple[Any, ...]

    def find(self, text: str, after: int = 0) -> SourceLocation:
        """Return the place of the first `text` behind the offset `after`; that of the file where there is none."""
        offset = self.file.text.find(text, after)
        return self.file.place(max(offset, 0))


@dataclass(frozen=True, kw_only=True)
class QueryView(FileView):
    """One PromQL expression, and the file around it."""

    query: Expression


@dataclass(frozen=True, kw_only=True)
class TroubleView(RuleView):
    """Something that could not be read."""

    trouble: UnreadableFile


@dataclass(frozen=True, kw_only=True)
class WaiverView(RuleView):
    """A waiver, whether there is such a rule, and whether it was of use.

    `used` is true, too, where only the reason is missing, and where its rule was not asked.
    """

    waiver: Waiver
    known: bool
    used: bool


Lint = Callable[[Any], Iterator[LintProblem]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A symbolic link of a case's files, to a path relative to the link's folder."""

    to: str


CaseFile = str | bytes | Link
_CONFIG = "models/a/config.pbtxt"


def _files(files: CaseFile | Mapping[str, CaseFile]) -> Mapping[str, CaseFile]:
    return files if isinstance(files, Mapping) else {_CONFIG: files}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleCase:
    """Files, and what the rule must say of them.

    Attributes:
        title: what it is, as the rest of a sentence about the rule: `fires when …`, `is quiet when …`.
        files: texts by path; the repository is the folder `models`, deployment files may stand beside it.
        places: where it must report a problem, in order, as `models/safety/config.pbtxt:3:1`; none for silence.
        paths: what is linted.

    """

    title: str
    files: Mapping[str, CaseFile]
    places: tuple[str, ...] = ()
    settings: LintSettings = field(default_factory=LintSettings)
    paths: tuple[str, ...] = (".",)

    @classmethod
    def fires(cls, when: str, files: CaseFile | Mapping[str, CaseFile], *places: str, **more: Any) -> RuleCase:
        """Return a case with problems.

        Args:
            when: ends the title.
            files: as the attribute; a file alone is the configuration of the model `a`.
            places: as the attribute; `3:1` is a place of the first file.
            more: other attributes.

        """
        written = _files(files)
        first = next(iter(written))
        at = tuple(f"{first}:{place}" if place[0].isdigit() else place for place in places)
        return cls(title=f"fires {when}", files=written, places=at, **more)

    @classmethod
    def quiet(cls, when: str, files: CaseFile | Mapping[str, CaseFile], **more: Any) -> RuleCase:
        """Return a case of which there is nothing to say; its arguments are as those of `fires`."""
        return cls(title=f"is quiet {when}", files=_files(files), **more)

    def write(self, folder: Path) -> None:
        """Write the files below `folder`."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Link):
                path.symlink_to(content.to)
            else:
                path.write_bytes(content.encode() if isinstance(content, str) else content)


def recording(expr: str, record: str = "x") -> Mapping[str, str]:
    """Return the files of a case that are one Prometheus rule: `rules.yaml`, which records `expr` from 5:15 on."""
    return {"rules.yaml": f"groups:\n  - name: triton\n    rules:\n      - record: {record}\n        expr: {expr}\n"}
