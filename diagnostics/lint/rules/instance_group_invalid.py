"""An instance group lists GPUs for a kind that has none.

## Looks for
`gpus` in a group of `KIND_CPU` or `KIND_MODEL`.

## Means
The server refuses the model at load: "… has kind KIND_CPU but specifies one or more GPUs".

## Do
Remove `gpus`, or make it `KIND_GPU`.

## Sources
Triton core, `model_config_utils.cc` (`ValidateInstanceGroup`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import groups
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope

RULE = Rule(scope=Scope.MODEL, severity=Severity.ERROR, question=Question.FITS)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of groups that the server refuses."""
    for group in groups(see.model) or ():
        if group.kind in ("KIND_CPU", "KIND_MODEL") and group.gpus:
            message = f"a group of {group.kind} may not list GPUs: the model does not load"
            yield see.problem(message, at=group.block.at("gpus"), help="remove gpus, or make it KIND_GPU")


_MODEL = 'backend: "python"\ninstance_group [ { kind: KIND_CPU gpus: [ 0 ] } ]\n'
CASES = (
    Case(
        title="speaks when a group on processors lists one",
        files={"models/a/config.pbtxt": _MODEL},
        places=("models/a/config.pbtxt:2:35",),
    ),
    Case(title="is silent for GPUs", files={"models/a/config.pbtxt": _MODEL.replace("KIND_CPU", "KIND_GPU")}),
)
