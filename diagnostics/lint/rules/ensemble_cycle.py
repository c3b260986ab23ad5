"""Ensembles call each other in a cycle.

## Looks for
An ensemble that one of its own steps reaches again.

## Means
The server refuses all of them at load: "circular dependency between ensembles".

## Do
Remove one step, or move what both need to a separate ensemble or model.

## Sources
Triton core, `model_repository_manager.cc` (`CircularDependencyCheck`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the first step that leads back to the ensemble."""
    seen = set[str]()
    for step in steps(view.config):
        member = view.named(step.model) if step.model else None
        if member is not None and _leads_to(view, member, view.model.name, seen):
            yield view.problem(
                f"{member.name} leads back to {view.model.name}: neither loads",
                at=step.block.at("model_name"),
            )
            return


def _leads_to(view: ConfiguredModelView, member: ModelFolder, name: str, seen: set[str]) -> bool:
    stack = [member]
    while stack:
        model = stack.pop()
        if model.name == name:
            return True
        if model.name not in seen and model.ensemble and model.config:
            seen.add(model.name)
            stack += filter(None, (view.named(step.model) for step in steps(model.config) if step.model))
    return False


def _ensemble(name: str, step: str) -> str:
    return f'name: "{name}"\nplatform: "ensemble"\nensemble_scheduling {{ step {{ model_name: "{step}" }} }}\n'


CASES = (
    RuleCase.fires(
        "for each ensemble of a cycle",
        {"models/a/config.pbtxt": _ensemble("a", "b"), "models/b/config.pbtxt": _ensemble("b", "a")},
        "3:30",
        "models/b/config.pbtxt:3:30",
    ),
    RuleCase.quiet(
        "when an ensemble calls another",
        {"models/a/config.pbtxt": _ensemble("a", "b"), "models/b/config.pbtxt": _ensemble("b", "c")},
    ),
)
