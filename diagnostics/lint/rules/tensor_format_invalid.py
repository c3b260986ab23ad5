"""A tensor has a format that its shape or its backend does not allow.

## Looks for
Any of these:
- `format: FORMAT_NHWC` or `FORMAT_NCHW` of an input without three dimensions.
- `is_shape_tensor` or `is_non_linear_format_io` outside of TensorRT, the latter also without three dimensions.
- A `label_filename` that is not in the model's folder.

## Means
The server refuses the model at load: "NHWC/NCHW require 3 dims", "shape tensors are only supported for TensorRT
platform", "failed to open text file for read".

## Do
Remove the batch dimension from `dims`, or remove the format. Remove flags that only TensorRT has. Add the file of
labels.

## Sources
Triton core, `model_config_utils.cc` (`ValidateModelInput`, `ValidateNonLinearFormatIO`) and `label_provider.cc`. Each
was seen to be refused by Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import TENSORRT
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_IMAGES = frozenset({"FORMAT_NHWC", "FORMAT_NCHW", "1", "2"})
_IMAGE_DIMENSIONS = 3


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each format that the server refuses."""
    for field in ("input", "output"):
        for tensor in view.config.blocks(field):
            yield from _of_tensor(view, tensor)


def _of_tensor(view: ConfiguredModelView, tensor: ConfigMessage) -> Iterator[LintProblem]:
    name, dims = tensor.text("name") or "a tensor", tensor.integers("dims")
    flat = dims is not None and bool(dims) and len(dims) != _IMAGE_DIMENSIONS
    if tensor.text("format") in _IMAGES and flat:
        message = f"{name} has {len(dims or ())} dimensions, and its format needs three: the model does not load"
        yield view.problem(message, at=tensor.at("format"), help="the batch dimension is not part of dims")
    for flag in ("is_shape_tensor", "is_non_linear_format_io"):
        if tensor.flag(flag) and view.model.backend not in (TENSORRT, None):
            message = f"{name} sets {flag}, which only TensorRT models have: the model does not load"
            yield view.problem(message, at=tensor.at(flag), help=f"remove {flag}")
        elif flag == "is_non_linear_format_io" and tensor.flag(flag) and flat:
            yield view.problem(f"{name} needs three dimensions for {flag}: the model does not load", at=tensor.at(flag))
    labels = tensor.text("label_filename")
    if labels and not (view.model.path / labels).exists():
        message = f"{name} has its labels in {labels}, which is not in the model's folder: the model does not load"
        yield view.problem(message, at=tensor.at("label_filename"))


def _model(tensor: str, backend: str = "python", field: str = "input") -> dict[str, str]:
    text = f'backend: "{backend}"\n{field} [ {{ name: "X" data_type: TYPE_FP32 {tensor} }} ]\n'
    return {"models/a/config.pbtxt": text, "models/a/1/model.py": "", "models/a/there.txt": "cat\n"}


CASES = (
    RuleCase.fires(
        "when an image includes the batch dimension",
        _model("format: FORMAT_NCHW dims: [ 1, 3, 224, 224 ]"),
        "models/a/config.pbtxt:2:42",
    ),
    RuleCase.fires(
        "when a model that is not TensorRT's has a shape tensor",
        _model("dims: [ 4 ] is_shape_tensor: true"),
        "models/a/config.pbtxt:2:54",
    ),
    RuleCase.fires(
        "when the file of labels is missing",
        _model('dims: [ 4 ] label_filename: "labels.txt"', field="output"),
        "models/a/config.pbtxt:2:55",
    ),
    RuleCase.quiet(
        "about images, TensorRT's shapes and existing label files",
        {
            **_model('dims: [ 4 ] label_filename: "there.txt"', field="output"),
            "models/b/config.pbtxt": 'backend: "tensorrt"\ninput { name: "X" dims: [ 4 ] is_shape_tensor: true }\n',
            "models/c/config.pbtxt": 'input { name: "X" format: FORMAT_NHWC dims: [ 224, 224, 3 ] }\n',
        },
    ),
)
