"""Asks every rule about everything in its scope, and takes out what is waived."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from diagnostics.errors import CollectError, UsageError
from diagnostics.lint.catalogue import RegisteredRule, catalogue
from diagnostics.lint.deployment_files import concerns, documents_of
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, SourceLocation, TextFile, read_text
from diagnostics.lint.queries import Expression, queries_of
from diagnostics.lint.repository import Difficulty, Project, Repository, UnreadableFile, read_project, troubles_of
from diagnostics.lint.rule import (
    ConfiguredModelView,
    FileView,
    QueryView,
    RepositoryView,
    RuleScope,
    TroubleView,
    WaiverView,
)
from diagnostics.lint.settings import LintSettings
from diagnostics.lint.waivers import Waived, Waiver, applied, waivers_of
from diagnostics.wire.redact import scrub_shapes

Rules = Mapping[str, RegisteredRule]
Progress = Callable[[str], None]
# Ten times what public deployment repositories hold of files that concern Triton, and half a minute of parsing YAML.
MOST_DEPLOYMENT_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class LintReport:
    """What was found.

    Attributes:
        problems: by path, line, column and rule.
        waived: problems that are accepted, in the same order.
        models: number of models that were looked at; `unread` of them have a configuration that could not be read.
        files: number of deployment files that were looked at.
        failures: what a rule could not judge because of a mistake in the rule itself, one sentence each.

    """

    problems: tuple[LintProblem, ...]
    waived: tuple[Waived, ...]
    models: int
    unread: int
    files: int
    failures: tuple[str, ...]
    rules: Rules
    project: Project


def lint(
    paths: Sequence[Path],
    settings: LintSettings | None = None,
    rules: Rules | None = None,
    *,
    progress: Progress | None = None,
) -> LintReport:
    """Return what the rules say of the repositories at and below `paths`.

    Args:
        paths: repositories, folders around them, folders or `config.pbtxt` of single models, deployment files.
        settings: by default none.
        rules: by default all.
        progress: is called with how far it is, before each model and each file; by default nothing is said.

    Raises:
        CollectError: a path cannot be read, or there is nothing to lint at any of them.
        UsageError: the settings name a rule that there is not.

    """
    run = _Run(settings or LintSettings(), catalogue() if rules is None else rules, progress or (lambda _: None))
    run.look_at(read_project(paths))
    return run.report(paths)


class _Run:
    def __init__(self, settings: LintSettings, rules: Rules, progress: Progress) -> None:
        self.settings, self.rules, self.progress = settings, rules, progress
        self.by_scope = {scope: [one for one in rules.values() if one.rule.scope is scope] for scope in RuleScope}
        self.problems: list[LintProblem] = []
        self.waivers: list[Waiver] = []
        self.failures: dict[str, None] = {}
        self.models = self.unread = self.files = self.bytes = 0
        unknown = sorted(settings.named() - set(catalogue()))
        if unknown:
            hint = "`diag lint --rules` lists them"
            raise UsageError(f"there is no rule {unknown[0]!r}", where=settings.shown, hint=hint)

    def look_at(self, project: Project) -> None:
        self.project = project
        for trouble in project.troubles:
            self._trouble(trouble)
        for repository in project.repositories:
            for name in sorted(repository.requested):
                self.progress(f"{self.models} models, now {name}")
                self._model(repository.models[name], repository)
            self._repository(repository)
        for number, (shown, path) in enumerate(project.files.items()):
            self.progress(f"{number} of {len(project.files)} files beside the models, now {shown}")
            if self.bytes > MOST_DEPLOYMENT_BYTES:
                self._trouble(_too_much(shown, len(project.files) - number))
                break
            self._file(shown, path)

    def _model(self, model: ModelFolder, repository: Repository) -> None:
        self.models += 1
        for trouble in troubles_of(model):
            self.unread += 1
            self._trouble(trouble)
        config = model.config
        if config is not None:
            self.waivers += waivers_of(config.file)
        # Of a configuration that the server does not read, no more is to be said than that.
        if config is not None and not repository.misplaced:
            scope = RuleScope.ENSEMBLE if model.ensemble else RuleScope.MODEL
            for each in (scope, RuleScope.ANY_MODEL):
                self._ask(
                    each,
                    lambda shared: ConfiguredModelView(**shared, model=model, repository=repository, config=config),
                )

    def _file(self, shown: str, path: Path) -> None:
        try:
            file = read_text(path, shown)
            documents = documents_of(file) if concerns(file) else ()
        except CollectError as error:
            self._trouble(UnreadableFile(difficulty=Difficulty.UNREADABLE, place=_whole(shown), message=error.what))
            return
        if not documents:
            return
        self.files += 1
        self.bytes += len(file.text)
        self.waivers += () if shown.endswith(".json") else waivers_of(file)
        self._ask(RuleScope.DEPLOYMENT_FILE, lambda shared: FileView(**shared, file=file, documents=documents))
        for query in queries_of(file, documents):
            self._query(query, file, documents)

    def _query(self, query: Expression, file: TextFile, documents: tuple[Any, ...]) -> None:
        about = partial(QueryView, file=file, documents=documents, query=query)
        self._ask(RuleScope.QUERY, lambda shared: about(**shared))

    def _waiver(self, waiver: Waiver, used: bool) -> None:
        of_use = used or (waiver.rule in catalogue() and waiver.rule not in self.rules)
        known = waiver.rule in catalogue()
        self._ask(RuleScope.WAIVER, lambda shared: WaiverView(**shared, waiver=waiver, used=of_use, known=known))

    def _trouble(self, trouble: UnreadableFile) -> None:
        self._ask(RuleScope.READING, lambda shared: TroubleView(**shared, trouble=trouble))

    def _repository(self, repository: Repository) -> None:
        so_far, self.problems = self.problems, []
        self._ask(RuleScope.REPOSITORY, lambda shared: RepositoryView(**shared, repository=repository))
        self.problems = [*so_far, *_of_requested(self.problems, repository)]

    def _ask(self, scope: RuleScope, view: Callable[[dict[str, Any]], object]) -> None:
        for found in self.by_scope[scope]:
            reported = {"rule": found.id, "severity": found.rule.severity}
            self._judge(found, view({**reported, "settings": self.settings, "project": self.project}))

    def _judge(self, found: RegisteredRule, view: object) -> None:
        try:
            self.problems += list(found.lint(view))
        except Exception as error:
            if os.environ.get("DIAG_DEBUG") == "1":
                raise
            what = f"the rule {found.id} failed: {type(error).__name__}: {error}; please report it"
            self.failures[" ".join(what.split())] = None

    def report(self, paths: Sequence[Path]) -> LintReport:
        if not self.models and not self.files and not self.problems:
            where = ", ".join(map(str, paths))
            raise CollectError("holds no model and no deployment file", where=where, hint="name a model repository")
        left, waived, used = applied(map(_without_secrets, self.problems), self.waivers)
        self.problems = []
        for waiver in self.waivers:
            self._waiver(waiver, waiver in used)
        problems, disabled = _decided([*left, *map(_without_secrets, self.problems)], self.settings)
        return LintReport(
            problems=tuple(sorted(problems, key=_order)),
            waived=tuple(sorted([*waived, *disabled], key=lambda one: _order(one.problem))),
            models=self.models,
            unread=self.unread,
            files=self.files,
            failures=tuple(self.failures),
            rules=self.rules,
            project=self.project,
        )


def _decided(problems: Sequence[LintProblem], settings: LintSettings) -> tuple[list[LintProblem], list[Waived]]:
    """Return the problems with the severities that the settings give them, and those that the settings disable."""
    left: list[LintProblem] = []
    disabled: list[Waived] = []
    for problem in problems:
        decided = settings.decided(problem)
        if decided.disable:
            disabled.append(Waived(problem=problem, reason=decided.disable, in_source=False))
        else:
            left.append(replace(problem, severity=decided.severity) if decided.severity else problem)
    return left, disabled


def _without_secrets(problem: LintProblem) -> LintProblem:
    """Return the problem without secrets that a file holds: reports go to agents and to pages of others."""
    return replace(problem, message=scrub_shapes(problem.message), help=scrub_shapes(problem.help))


def _of_requested(problems: Iterable[LintProblem], repository: Repository) -> Iterator[LintProblem]:
    """Yield what concerns the models that were asked for; all of it where the whole repository was."""
    if repository.requested == set(repository.models):
        yield from problems
        return
    requested = [repository.models[name].shown for name in repository.requested]
    yield from (problem for problem in problems if any(_within(problem.place.path, shown) for shown in requested))


def _within(path: str, folder: str) -> bool:
    return path == folder or (not path.startswith("..") if folder == "." else path.startswith(f"{folder}/"))


def _too_much(shown: str, left: int) -> UnreadableFile:
    most = MOST_DEPLOYMENT_BYTES // 2**20
    return UnreadableFile(
        difficulty=Difficulty.UNREADABLE,
        place=_whole(shown),
        message=f"this file and {left - 1} more are not linted: {most} MiB of deployment files were read before",
        help="lint fewer folders at once",
    )


def _whole(shown: str) -> SourceLocation:
    return SourceLocation(path=shown)


def _order(problem: LintProblem) -> tuple[str, int, int, str, str]:
    place = problem.place
    return place.path, place.line, place.column, problem.rule, problem.message
