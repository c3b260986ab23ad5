"""A step of an ensemble calls a model that the repository does not have.

## Looks for
A step's `model_name` that is no folder of the same repository, if the whole repository was read.

## Means
The server refuses the ensemble at load: "ensemble … contains models that are not available or ambiguous".

A folder that holds ensembles alone may be only a part of the deployment. If it was found below the path that you gave,
this is a warning. Pass the folder itself (`diag lint models`) to have it checked as the whole repository.

## Do
Correct the name, or add the model. If the server has the member in another repository, pass that one to `diag lint`,
too.

## Sources
Triton core, `model_repository_manager.cc` and `dependency_graph.cc`: members are looked up by name in all repositories.
Triton 2.51 refused an ensemble with one member missing, and with all.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each step whose model is missing."""
    part = _may_be_a_part(view)
    for step in steps(view.config):
        if step.model and view.named(step.model) is None:
            missing = f"the step calls {step.model!r}, which is no model of {view.repository.shown}"
            yield view.problem(
                f"{missing}, which holds ensembles alone" if part else f"{missing}: the ensemble does not load",
                at=step.block.at("model_name"),
                help="pass the repository of the members, too" if part else "correct the name or add the model",
                severity=LintSeverity.WARNING if part else None,
            )


def _may_be_a_part(view: ConfiguredModelView) -> bool:
    """Return whether members may come from elsewhere when it is deployed: a folder of a source tree without any."""
    return not view.repository.named and all(model.ensemble for model in view.repository.models.values())


_STEP = 'step { model_name: "safety" model_version: -1 }'
_ENSEMBLE = f'name: "all"\nplatform: "ensemble"\nensemble_scheduling {{\n  {_STEP}\n}}\n'
CASES = (
    RuleCase.fires(
        "when a step's model has no folder, and other models have",
        {"models/all/config.pbtxt": _ENSEMBLE, "models/other/1/model.py": ""},
        "4:10",
    ),
    RuleCase.fires(
        "when the repository that is named holds no member",
        {"models/all/config.pbtxt": _ENSEMBLE},
        "4:10",
        paths=("models",),
    ),
    RuleCase.fires(
        "as a warning where a folder below holds ensembles alone", {"models/all/config.pbtxt": _ENSEMBLE}, "4:10"
    ),
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
