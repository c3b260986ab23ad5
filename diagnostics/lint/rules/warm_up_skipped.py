"""A warm-up never runs, or makes the model fail to load.

## Looks for
Any of these in a sample of `model_warmup`:
- A `batch_size` below 1, above `max_batch_size` or missing.
- A required input of the model is missing.
- An input has a variable size, no data, or another type or shape than the model's.
- An input's data file is not in the model's folder `warmup`.

## Means
The server skips a sample of batch size 0, which is the default. Only its verbose log says so, and the model stays cold.
A sample that is no valid request makes the model fail to load.

## Do
Give every sample a `batch_size`, fixed sizes, and every input that is not `optional`.

## Sources
Triton core, `backend_model_instance.cc` (`GenerateWarmupData`). User guide, "Model Warmup".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import ANY_SIZE, DeclaredTensor, fits, tensors

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.WARM)

_FOLDER = "warmup"
_SOURCES = ("zero_data", "random_data", "input_data_file")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each sample that is skipped or refused."""
    for sample in view.config.blocks("model_warmup"):
        size, most = sample.integer("batch_size"), view.model.max_batch_size
        if size == 0:
            message = "the server skips a warm-up sample without a batch_size: it never runs"
            yield view.problem(message, at=sample.place, help="set batch_size: 1", severity=LintSeverity.WARNING)
            continue
        if size and most is not None and size > max(most, 1):
            message = f"a warm-up of {size} is larger than max_batch_size, {most}: the model does not load"
            yield view.problem(message, at=sample.at("batch_size"))
        yield from _inputs(view, sample)


def _inputs(view: ConfiguredModelView, sample: ConfigMessage) -> Iterator[LintProblem]:
    entries = sample.blocks("inputs")
    declared = tensors(view.config, "input") or ()
    known = {tensor.name: tensor for tensor in declared}
    for entry in entries:
        key, value = entry.text("key"), entry.block("value")
        wrong = _refused(view, value, known.get(key or "")) if value is not None and value.complete else ""
        if wrong:
            yield view.problem(f"a warm-up's {key!r} {wrong}: the model does not load", at=entry.at("value"))
    given = {entry.text("key") for entry in entries}
    needed = {tensor.name for tensor in declared if tensor.optional is False}
    missing = needed - given if sample.complete and None not in given else ()
    if missing:
        yield view.problem(
            f"the warm-up lacks {', '.join(sorted(missing))}: the model does not load",
            at=sample.place,
        )


def _refused(view: ConfiguredModelView, value: ConfigMessage, tensor: DeclaredTensor | None) -> str:
    """Return what is wrong with an input of a sample; empty for nothing. What the model does not have is ignored."""
    dims, data_type, file = value.integers("dims"), value.text("data_type"), value.text("input_data_file")
    if dims is not None and ANY_SIZE in dims:
        return "has a variable size"
    if tensor is None:
        return ""
    if None not in (data_type, tensor.data_type) and data_type != tensor.data_type:
        return f"is of {data_type or 'no type'}, and the model takes {tensor.data_type}"
    if dims is not None and tensor.dims is not None and not fits(tensor.dims, dims, one_batches=False):
        return f"has the shape {list(dims)}, and the model takes {list(tensor.dims)}"
    if file is not None and value.has("input_data_file") and not (view.model.path / _FOLDER / file).is_file():
        return f"is in {_FOLDER}/{file}, which is not there" if file else "has an input_data_file without a name"
    return "" if any(value.has(source) for source in _SOURCES) else "has no data"


def _model(sample: str) -> dict[str, str]:
    head = 'backend: "pytorch"\nmax_batch_size: 8\ninput [ { name: "X" dims: 4 }, { name: "O" optional: true } ]\n'
    return {"models/a/config.pbtxt": f"{head}model_warmup [ {{ {sample} }} ]\n"}


_X = 'inputs { key: "X" value { data_type: TYPE_FP32 dims: 4 zero_data: true } }'
CASES = (
    RuleCase.fires("when a sample has no batch size", _model(_X), "4:16"),
    RuleCase.fires(
        "when a sample is too large, has a variable size or lacks an input",
        _model('batch_size: 9 inputs { key: "Y" value { dims: -1 } }'),
        "4:16",
        "4:18",
        "4:50",
    ),
    RuleCase.quiet("about a complete sample", _model("batch_size: 8 " + _X)),
    RuleCase.quiet("about templates", _model("batch_size: ${size} ${inputs}")),
)
