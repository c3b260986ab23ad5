"""An ensemble has no steps, or a step lacks its model, its version or its maps.

## Looks for
`platform: "ensemble"` without `ensemble_scheduling` and a `step`; `ensemble_scheduling` without that platform. Steps
without `model_name`, `model_version`, `input_map` or `output_map`. Steps with a version below 1 other than -1.

## Means
The server refuses the ensemble at load: "must specify 'step'", "must specify 'input_map' in step …". A step without
`model_version` requests version 0, which no model has: "required version 0 is not loaded".

## Do
Add what is missing: `model_version: -1` is the latest.

## Sources
Triton core, `model_config_utils.cc` (`BuildEnsembleGraph`, `ValidateEnsembleSchedulingConfig`) and
`model_repository_manager.cc` ("whose required version"). Seen on 24.10.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps
from diagnostics.wire.model_config import LATEST

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report what is missing."""
    scheduling, platform = view.config.block("ensemble_scheduling"), view.config.text("platform")
    if view.config.has("ensemble_scheduling") is False or (scheduling and scheduling.has("step") is False):
        yield view.problem("the ensemble has no step: it does not load", at=view.model.place)
    if scheduling is not None and platform not in ("ensemble", None):
        message = "a model with ensemble_scheduling needs the platform ensemble: it does not load"
        yield view.problem(message, at=view.config.at("ensemble_scheduling"))
    for number, step in enumerate(steps(view.config), 1):
        fields = ("model_name", "model_version", "input_map", "output_map")
        missing = [field for field in fields if step.block.has(field) is False]
        if missing:
            yield view.problem(
                f"step {number} lacks {' and '.join(missing)}: the ensemble does not load", at=step.block.place
            )
        version = step.block.integer("model_version", default=LATEST)
        if version is not None and version < 1 and version != LATEST:
            message = f"step {number} requests version {version}, which no model has: the ensemble does not load"
            yield view.problem(message, at=step.block.at("model_version"), help="model_version: -1 is the latest")


_STEP = (
    'step { model_name: "a" model_version: -1 input_map { key: "X" value: "X" } output_map { key: "Y" value: "Y" } }'
)
_ALL = f'platform: "ensemble"\nensemble_scheduling {{ {_STEP} }}\n'
CASES = (
    RuleCase.fires("without a step", {"models/all/config.pbtxt": 'platform: "ensemble"\n'}, "1:1"),
    RuleCase.fires(
        "when a step has no outputs, and when the platform is missing",
        {"models/all/config.pbtxt": 'ensemble_scheduling { step { model_name: "a" model_version: 1 input_map { } } }'},
        "1:1",
        "1:28",
    ),
    RuleCase.fires(
        "when a step names no version", {"models/all/config.pbtxt": _ALL.replace("model_version: -1", "")}, "2:28"
    ),
    RuleCase.fires("when a step requests version 0", {"models/all/config.pbtxt": _ALL.replace("-1", "0")}, "2:46"),
    RuleCase.quiet("about complete steps", {"models/all/config.pbtxt": _ALL}),
    RuleCase.quiet(
        "when a template may complete the step",
        {"models/all/config.pbtxt": 'platform: "ensemble"\nensemble_scheduling { step { ${step} } }\n'},
    ),
)
