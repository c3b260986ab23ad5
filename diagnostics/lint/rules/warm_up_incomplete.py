"""A warm-up does not cover the served sizes.

## Looks for
No sample of a model with a dynamic batcher has `max_batch_size`, or a `preferred_batch_size` has no sample. For a model
with inputs of variable size: all samples have the same size.

## Means
Frameworks prepare for each shape when it first occurs. They choose kernels, plan memory, and capture or compile graphs.
A request of a new size pays for it after the model is READY.

## Do
Add a sample for each preferred size and the largest batch. Add one each for the shortest and the longest served input.
TorchScript optimizes in the second run of a shape: give those samples `count: 3`.

## Sources
Triton user guide, "Model Warmup". server#3012 (warm-up at batch 1: the second request at batch 2 took 2.85 s).
server#3473 (engines are built for each shape).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.engines import is_engine
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import ANY_SIZE, tensors

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.WARM)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report batch sizes and shapes that no sample has."""
    samples = view.config.blocks("model_warmup")
    sizes = [sample.integer("batch_size") for sample in samples]
    if not samples or None in sizes or not any(sizes) or is_engine(view.model):
        return
    yield from _batches(view, {size for size in sizes if size})
    variable = {one.name for one in tensors(view.config, "input") or () if ANY_SIZE in (one.dims or ())}
    shapes = {_shapes(sample, variable) for sample in samples}
    if variable and len(shapes) == 1 and None not in shapes:
        yield view.problem(
            f"every warm-up has the same size of {', '.join(sorted(variable))}, which is variable",
            at=view.config.at("model_warmup"),
            help="add the shortest and the longest that are served",
            severity=LintSeverity.INFO,
        )


def _batches(view: ConfiguredModelView, warm: set[int]) -> Iterator[LintProblem]:
    batching, most = view.config.block("dynamic_batching"), view.model.max_batch_size
    if batching is None or not most:
        return
    served = {most, *(batching.integers("preferred_batch_size") or ())}
    cold = sorted(size for size in served - warm if 0 < size <= most)
    if cold:
        yield view.problem(
            f"no warm-up has batch size {', '.join(map(str, cold))}, which the batcher forms",
            at=view.config.at("model_warmup"),
            help="add a sample for each",
        )


def _shapes(sample: ConfigMessage, variable: set[str]) -> tuple[object, ...] | None:
    """Return the sizes that a sample gives the variable inputs; None when one is unknown."""
    found = []
    for entry in sample.blocks("inputs"):
        value, key = entry.block("value"), entry.text("key")
        dims = value.integers("dims") if value else None
        if key is None or dims is None:
            return None
        found += [(key, dims)] if key in variable else []
    return tuple(sorted(found))


def _model(*sizes: tuple[int | str, int]) -> dict[str, str]:
    samples = ", ".join(
        f'{{ batch_size: {batch} inputs {{ key: "X" value {{ dims: {length} }} }} }}' for batch, length in sizes
    )
    head = 'backend: "pytorch"\nmax_batch_size: 8\ninput { name: "X" dims: -1 }\ndynamic_batching { }\n'
    return {"models/a/config.pbtxt": f"{head}model_warmup [ {samples} ]\n"}


_AT = "models/a/config.pbtxt:5:1"
CASES = (
    RuleCase.fires("when the largest batch is cold", _model((1, 16), (4, 512)), _AT),
    RuleCase.fires("when all inputs have one length", _model((1, 16), (8, 16)), _AT),
    RuleCase.quiet("when both sizes are covered", _model((1, 16), (8, 512))),
    RuleCase.quiet("when a size is a template", _model((1, 16), ("${size}", 16))),
)
