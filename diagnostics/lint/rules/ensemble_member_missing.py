"""A step of an ensemble calls a model that the repository does not have.

## Looks for
A step's `model_name` that is no folder of the same repository, if the whole repository was read.

## Means
The server refuses the ensemble at load: "ensemble … contains models that are not available". If no member is there, the
folder may be only a part of the deployment: this is a warning.

## Do
Correct the name, or add the model. If the server has the member in another repository, pass that one to `diag lint`,
too.

## Sources
Triton core, `model_repository_manager.cc` and `dependency_graph.cc`: members are looked up by name in all repositories.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Tell of each step whose model is missing."""
    every = [step for step in steps(view.config) if step.model]
    missing = [step for step in every if view.named(step.model or "") is None]
    severity = LintSeverity.WARNING if len(missing) == len(every) else LintSeverity.ERROR
    for step in missing:
        yield view.problem(
            f"the step calls {step.model!r}, which is no model of {view.repository.shown}",
            at=step.block.at("model_name"),
            help="correct the name or add the model",
            severity=severity,
        )


_STEP = 'step { model_name: "safety" model_version: -1 }'
_ENSEMBLE = f'name: "all"\nplatform: "ensemble"\nensemble_scheduling {{\n  {_STEP}\n}}\n'
CASES = (
    RuleCase.fires("when a step's model has no folder", {"models/all/config.pbtxt": _ENSEMBLE}, "4:10"),
    RuleCase.quiet(
        "when the folder exists, with or without a configuration",
        {"models/all/config.pbtxt": _ENSEMBLE, "models/safety/1/model.py": ""},
    ),
    RuleCase.quiet(
        "when another repository has the member",
        {"models/all/config.pbtxt": _ENSEMBLE, "more/safety/config.pbtxt": 'name: "safety"\n'},
    ),
    RuleCase.quiet(
        "when the name is a template", {"models/all/config.pbtxt": _ENSEMBLE.replace('"safety"', '"${safety}"')}
    ),
)
