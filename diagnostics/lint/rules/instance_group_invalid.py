"""An instance group lists GPUs for a kind without GPUs, or profiles for a backend without profiles.

## Looks for
`gpus` in a group of `KIND_CPU` or `KIND_MODEL`, and a `profile` of a model that is not TensorRT's.

## Means
The server refuses the model at load: "… has kind KIND_CPU but specifies one or more GPUs", "… specifies profile field
which is only supported for TensorRT models".

## Do
Remove `gpus`, or change the kind to `KIND_GPU`. Remove `profile`.

## Sources
Triton core, `model_config_utils.cc` (`ValidateInstanceGroup`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import groups
from diagnostics.lint.model_folder import TENSORRT
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report groups that the server refuses."""
    for group in groups(view.model) or ():
        if group.kind in ("KIND_CPU", "KIND_MODEL") and group.gpus:
            message = f"a group of {group.kind} may not list GPUs: the model does not load"
            yield view.problem(message, at=group.block.at("gpus"), help="remove gpus, or make it KIND_GPU")
        if group.block.has("profile") and view.model.backend not in (TENSORRT, None):
            message = "only TensorRT models have profiles: the model does not load"
            yield view.problem(message, at=group.block.at("profile"), help="remove profile")


_MODEL = 'backend: "python"\ninstance_group [ { kind: KIND_CPU gpus: [ 0 ] } ]\n'
CASES = (
    RuleCase.fires(
        "when another backend than TensorRT has profiles", _MODEL.replace("gpus: [ 0 ]", 'profile: "0"'), "2:35"
    ),
    RuleCase.fires("when a CPU group lists a GPU", _MODEL, "2:35"),
    RuleCase.quiet("about a GPU group", _MODEL.replace("KIND_CPU", "KIND_GPU")),
)
