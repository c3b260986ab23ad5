"""A tensor that the server builds for a whole batch is declared in a way that the server refuses.

## Looks for
Any of these:
- A `batch_input` with a type other than `TYPE_INT32` and `TYPE_FP32`.
- A `batch_input` or `batch_output` without exactly one `source_input`, or with one that the model lacks.
- A `batch_output` with a missing or repeated `target_name`, or one that is no output of the model.

## Means
The server refuses the model at load: "expects 1 source input", "unknown source input name", "unknown target output
name". Without a `target_name`, Triton 2.51 crashes.

## Do
Name one input as source, and the outputs to scatter.

## Sources
Triton core, `model_config_utils.cc` (`ValidateBatchIO`). Each was seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import tensors

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_TYPES = frozenset({"TYPE_INT32", "8", "TYPE_FP32", "11"})


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each declaration that the server refuses."""
    for field in ("batch_input", "batch_output"):
        for block in view.config.blocks(field):
            wrong = _wrong_source(view, block) or _wrong_type(block, field) or _wrong_target(view, block, field)
            if wrong:
                yield view.problem(f"the {field} {wrong}: the model does not load", at=block.place)


def _wrong_source(view: ConfiguredModelView, block: ConfigMessage) -> str:
    sources, inputs = block.texts("source_input"), tensors(view.config, "input")
    if not block.complete or any(source.value is None for source in sources):
        return ""
    if len(sources) != 1:
        return f"needs one source_input and has {len(sources)}"
    known = {tensor.name for tensor in inputs or ()}
    unknown = inputs is not None and not view.model.completed and sources[0].value not in known
    return f"is made of {sources[0].value!r}, which is no input" if unknown else ""


def _wrong_type(block: ConfigMessage, field: str) -> str:
    data_type = block.text("data_type") if field == "batch_input" else None
    return f"is of {data_type or 'no type'}, not TYPE_INT32 or TYPE_FP32" if data_type not in (None, *_TYPES) else ""


def _wrong_target(view: ConfiguredModelView, block: ConfigMessage, field: str) -> str:
    names = [target.value for target in block.texts("target_name")]
    if field == "batch_input" or None in names or not block.complete:
        return ""
    if not names:
        return "has no target_name"
    if len(set(names)) < len(names):
        return "names a target twice"
    outputs = tensors(view.config, "output")
    unknown = set(names) - {tensor.name for tensor in outputs or ()}
    known = outputs is not None and not view.model.completed
    return f"is to be {', '.join(sorted(filter(None, unknown)))}, which is no output" if unknown and known else ""


def _model(more: str) -> dict[str, str]:
    head = 'backend: "python"\nmax_batch_size: 8\ninput { name: "X" data_type: TYPE_FP32 dims: -1 }\n'
    text = f'{head}output {{ name: "Y" data_type: TYPE_FP32 dims: -1 }}\n{more}\n'
    return {"models/a/config.pbtxt": text, "models/a/1/model.py": ""}


_AT = ("models/a/config.pbtxt:5:13",)
_INPUT = 'batch_input { kind: BATCH_ELEMENT_COUNT target_name: "N" data_type: TYPE_FP32 source_input: "X" }'
_OUTPUT = 'batch_output { target_name: "Y" kind: BATCH_SCATTER_WITH_INPUT_SHAPE source_input: "X" }'
CASES = (
    RuleCase(
        title="fires when a tensor has no source", files=_model(_INPUT.replace('source_input: "X" ', "")), places=_AT
    ),
    RuleCase(
        title="fires when a source is no input of the model", files=_model(_INPUT.replace('"X"', '"Z"')), places=_AT
    ),
    RuleCase(title="fires when a tensor has another type", files=_model(_INPUT.replace("FP32", "INT64")), places=_AT),
    RuleCase.fires("when a target is no output", _model(_OUTPUT.replace('"Y"', '"Z"')), "models/a/config.pbtxt:5:14"),
    RuleCase.quiet("about valid tensors", _model(f"{_INPUT}\n{_OUTPUT}")),
    RuleCase.quiet("about templates", _model(_INPUT.replace('"X"', '"${input}"'))),
)
