"""An input or output lacks its name, its data type or its shape.

## Looks for
Inputs and outputs without `name`, `data_type` or `dims`, if the backend does not complete them. This holds for
ensembles, PyTorch, TensorRT-LLM, and Python models without `auto_complete_config`.

## Means
The server refuses the model at load: "must specify 'name'", "must specify 'data_type'", "must specify 'dims'".

## Do
Add what is missing. Use -1 for a variable size.

## Sources
Triton core, `model_config_utils.cc` (`ValidateIOShape`). Each was seen to be refused by Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each field that is missing."""
    if view.model.completed:
        return
    for field in ("input", "output"):
        for number, tensor in enumerate(view.config.blocks(field), 1):
            missing = [name for name, absent in _absent(tensor).items() if absent]
            if missing:
                who = tensor.text("name") or f"{field} {number}"
                message = f"{who} has no {' and no '.join(missing)}: the model does not load"
                yield view.problem(message, at=tensor.place)


def _absent(tensor: ConfigMessage) -> dict[str, bool]:
    return {
        "name": tensor.text("name") == "",
        "data_type": tensor.text("data_type") in ("", "TYPE_INVALID", "0"),
        "dims": tensor.has("dims") is False or _is_empty(tensor),
    }


def _is_empty(tensor: ConfigMessage) -> bool:
    return tensor.has("dims") is True and tensor.integers("dims") == ()


def _model(tensor: str, backend: str = "python") -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "{backend}"\ninput [ {{ {tensor} }} ]\n', "models/a/1/model.py": ""}


CASES = (
    RuleCase.fires("when a name is missing", _model("data_type: TYPE_FP32 dims: [ 4 ]"), "models/a/config.pbtxt:2:9"),
    RuleCase.fires("when type and shape are missing", _model('name: "X" dims: [ ]'), "models/a/config.pbtxt:2:9"),
    RuleCase.quiet("when the backend completes the tensors", _model('name: "X"', "onnxruntime")),
    RuleCase.quiet("about templates", _model('name: "X" data_type: ${type} dims: [ ${size} ]')),
    RuleCase.quiet("about complete tensors", _model('name: "X" data_type: TYPE_FP32 dims: [ 4 ]')),
)
