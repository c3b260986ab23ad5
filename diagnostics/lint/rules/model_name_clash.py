"""Two linted repositories hold a model of the same name.

## Looks for
The repositories are given explicitly, as in `diag lint models shared`, and share a model name. Repositories found below
a folder are not compared: they are often copies, and a server gets only one.

## Means
A server with both repositories serves neither model of that name: "model appears in two or more repositories"; it
serves all others. Servers with one repository each are not affected.

## Do
Rename or remove one of them. Or start the server with `--model-namespacing=true`, which keeps repositories apart.

## Sources
Triton core, `model_repository_manager.cc`; user guide, "Model Repository". Seen on Triton 2.51, with and without
namespaces.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.repository import Repository
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.WARNING, question=LintTopic.FITS)


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each model of a repository that one before it has, too."""
    for name in sorted(view.repository.models) if view.repository.named else ():
        first = next((one for one in _before(view) if name in one.models), None)
        if first is not None:
            yield view.problem(
                f"{name} is in {first.shown}, too: a server that is given both repositories serves neither",
                at=view.repository.models[name].place,
                help="rename or remove one, or start the server with --model-namespacing=true",
            )


def _before(view: RepositoryView) -> Iterator[Repository]:
    for one in view.project.repositories:
        if one.path == view.repository.path:
            return
        if one.named:
            yield one


_FILES = {
    "models/chat/config.pbtxt": 'name: "chat"\nbackend: "python"\n',
    "shared/chat/config.pbtxt": 'backend: "python"\n',
    "shared/safety/config.pbtxt": 'backend: "python"\n',
}
CASES = (
    RuleCase.fires(
        "when both repositories are given", _FILES, "shared/chat/config.pbtxt:1:1", paths=("models", "shared")
    ),
    RuleCase.quiet("about repositories found below a folder", _FILES),
    RuleCase.quiet("when only one is linted", _FILES, paths=("shared",)),
)
