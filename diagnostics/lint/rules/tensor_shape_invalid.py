"""A tensor has an impossible shape.

## Looks for
Any of these:
- A dimension that is neither at least 1 nor -1.
- A `reshape` with another number of elements than `dims`, also between variable dimensions.
- A `reshape` with another number of variable dimensions.
- An empty `reshape` of a model that does not batch.

## Means
The server refuses the model at load: "dimension must be integer >= 1, or -1", "has different size for dims and
reshape".

## Do
Use -1 for a variable size. For a scalar of a model that batches, use `dims: [ 1 ]` with `reshape { shape: [ ] }`.

## Sources
Triton core, `model_config_utils.cc` (`ValidateIOShape`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import ANY_SIZE

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each shape that the server refuses."""
    for tensor in (*view.config.blocks("input"), *view.config.blocks("output")):
        dims, reshape = tensor.integers("dims"), tensor.block("reshape")
        shape = reshape.integers("shape") if reshape else None
        if dims is None:
            continue
        if _impossible(dims):
            yield _problem(view, tensor, f"has the shape {list(dims)}", at_dims=True)
        elif reshape is not None and shape is not None:
            yield from _reshaped(view, tensor, dims, shape)


def _reshaped(
    view: ConfiguredModelView, tensor: ConfigMessage, dims: Sequence[int], shape: Sequence[int]
) -> Iterator[LintProblem]:
    if _impossible(shape):
        yield _problem(view, tensor, f"is reshaped to {list(shape)}")
    elif not shape and view.model.max_batch_size == 0:
        yield _problem(view, tensor, "is reshaped to a scalar, which a model that does not batch may not have")
    elif dims and _elements(dims) != _elements(shape):
        yield _problem(view, tensor, f"is reshaped from {list(dims)} to {list(shape)}, of another size")


def _elements(sizes: Sequence[int]) -> list[int]:
    """Return the number of elements before, between and behind the variable dimensions."""
    found = [1]
    for size in sizes:
        if size == ANY_SIZE:
            found.append(1)
        else:
            found[-1] *= size
    return found


def _problem(view: ConfiguredModelView, tensor: ConfigMessage, what: str, *, at_dims: bool = False) -> LintProblem:
    place = tensor.at("dims") if at_dims else tensor.at("reshape")
    return view.problem(f"{tensor.text('name') or 'a tensor'} {what}: the model does not load", at=place)


def _impossible(sizes: Sequence[int]) -> bool:
    return any(size < 1 and size != ANY_SIZE for size in sizes)


def _model(tensor: str, most: str = "8") -> dict[str, str]:
    text = f'backend: "python"\nmax_batch_size: {most}\ninput [ {{ name: "X" {tensor} }} ]\n'
    return {"models/a/config.pbtxt": text}


CASES = (
    RuleCase.fires("when a size is 0", _model("dims: [ 4, 0 ]"), "3:21"),
    RuleCase.fires("when a reshape loses elements", _model("dims: [ 4 ] reshape { shape: [ 2 ] }"), "3:33"),
    RuleCase.fires(
        "when elements move across a variable size", _model("dims: [ 2, -1, 3 ] reshape { shape: [ -1, 6 ] }"), "3:40"
    ),
    RuleCase.fires(
        "when a model that does not batch has a scalar", _model("dims: [ 1 ] reshape { shape: [ ] }", most="0"), "3:33"
    ),
    RuleCase.quiet(
        "about scalars of models that batch, and variable sizes",
        _model('dims: [ 1 ] reshape { shape: [ ] } }, { name: "Y" dims: [ -1, 4 ] reshape { shape: [ -1, 2, 2 ] }'),
    ),
    RuleCase.quiet("about templates", _model("dims: [ ${size}, 0 ]")),
)
