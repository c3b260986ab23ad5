"""A configuration is in a version's folder, where the server does not look for it.

## Looks for
`config.pbtxt` in a folder with a numeric name and no versions inside, such as `model/1/config.pbtxt`. No other rule
reports on such a file.

## Means
The server reads `model/config.pbtxt`. For the server, the model has no configuration: it refuses the model, or serves
it with defaults.

## Do
Move the file one folder up.

## Sources
Triton user guide, "Model Repository" ("Repository Layout").
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each configuration of a folder that looks like a version."""
    models = view.repository.models
    if view.repository.misplaced:
        for name in sorted(models):
            if models[name].config is not None:
                yield view.problem(
                    f"the server looks for it in {view.repository.shown}, not in version {name}",
                    at=models[name].place,
                    help="move it one folder up",
                )


CASES = (
    RuleCase.fires(
        "when the file is in a version's folder",
        {"models/a/1/config.pbtxt": 'name: "other"\nbackend: "python"\n'},
        "1:1",
    ),
    RuleCase.quiet(
        "about a file in the model's folder, also with a numeric name",
        {"models/7/config.pbtxt": 'backend: "python"\n', "models/7/1/model.py": ""},
    ),
)
