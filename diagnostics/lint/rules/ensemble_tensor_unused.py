"""A tensor of an ensemble is written but never read.

## Looks for
The value of an `output_map` that is no output of the ensemble and that no other step reads. Also inputs of the ensemble
that no step reads.

## Means
The server refuses the ensemble at load: "ensemble tensor … is unused", "ensemble input … is not used".

## Do
Remove the entry from the map. Unmapped outputs of a member are allowed, and most backends do not even compute or copy
them.

## Sources
Triton core, `model_config_utils.cc` (`ValidateEnsembleSchedulingConfig`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps, tensors

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each tensor that nobody reads, where the whole ensemble is known."""
    every = steps(view.config)
    inputs, outputs = tensors(view.config, "input"), tensors(view.config, "output")
    if inputs is None or outputs is None or not every or not all(step.complete for step in every):
        return
    read = {text.value for step in every for text in step.inputs.values()}
    given = {tensor.name for tensor in outputs}
    for tensor in inputs:
        if tensor.name not in read:
            yield view.problem(f"no step reads the input {tensor.name!r}: the ensemble does not load", at=tensor.place)
    for step in every:
        for text in step.outputs.values():
            if text.value not in read | given:
                yield view.problem(
                    f"nobody reads {text.value!r} of {step.model}: the ensemble does not load",
                    at=text.place,
                    help="take it out of the output_map",
                )


_ENSEMBLE = """name: "all"
platform: "ensemble"
input [ { name: "X" }, { name: "Z" } ]
output { name: "Y" }
ensemble_scheduling { step { model_name: "safety" input_map { key: "I" value: "X" }
  output_map { key: "SCORE" value: "Y" }
  output_map { key: "WHY" value: "_WHY" } } }
"""
CASES = (
    RuleCase.fires(
        "for an output and an input that no step reads", {"models/all/config.pbtxt": _ENSEMBLE}, "3:26", "7:34"
    ),
    RuleCase.quiet(
        "when every tensor is read",
        {
            "models/all/config.pbtxt": _ENSEMBLE.replace(', { name: "Z" }', "").replace(
                'output { name: "Y" }', 'output [ { name: "Y" }, { name: "_WHY" } ]'
            )
        },
    ),
    RuleCase.quiet(
        "when a template may read the tensor", {"models/all/config.pbtxt": _ENSEMBLE.replace("} } }", "} ${more} } }")}
    ),
)
