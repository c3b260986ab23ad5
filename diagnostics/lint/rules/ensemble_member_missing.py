"""A step of an ensemble calls a model that the repository does not have.

## Looks for
A `model_name` of a step that is no folder of the same repository, where the whole repository was read.

## Means
The server refuses the ensemble at load: "ensemble … contains models that are not available".

## Do
Correct the name, or add the model. Where the member is served from another repository of the same server, name that
to `diag lint`, too.

## Sources
Triton core, `model_repository_manager.cc` and `dependency_graph.cc`: members are looked up by name in all repositories.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope

RULE = Rule(scope=Scope.ENSEMBLE, severity=Severity.ERROR, question=Question.FITS)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of each step whose model is missing."""
    scheduling = see.config.block("ensemble_scheduling")
    for step in scheduling.blocks("step") if scheduling else ():
        name = step.text("model_name")
        if name and see.named(name) is None:
            yield see.problem(
                f"the step calls {name!r}, which is no model of {see.repository.shown}",
                at=step.at("model_name"),
                help="correct the name or add the model",
            )


_STEP = 'step { model_name: "safety" model_version: -1 }'
_ENSEMBLE = f'name: "all"\nplatform: "ensemble"\nensemble_scheduling {{\n  {_STEP}\n}}\n'
CASES = (
    Case(
        title="speaks when a step's model has no folder",
        files={"models/all/config.pbtxt": _ENSEMBLE},
        places=("models/all/config.pbtxt:4:10",),
    ),
    Case(
        title="is silent when the folder is there, with or without a configuration",
        files={"models/all/config.pbtxt": _ENSEMBLE, "models/safety/1/model.py": ""},
    ),
    Case(
        title="is silent when another repository has it",
        files={"models/all/config.pbtxt": _ENSEMBLE, "more/safety/config.pbtxt": 'name: "safety"\n'},
    ),
    Case(
        title="is silent when the name is a template",
        files={"models/all/config.pbtxt": _ENSEMBLE.replace('"safety"', '"${safety}"')},
    ),
)
