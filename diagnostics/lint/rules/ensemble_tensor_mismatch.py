"""A tensor of an ensemble has two data types or two shapes.

## Looks for
The ensemble and its members declare different data types for one tensor, or shapes that cannot match. A dimension of -1
fits any size. If only one of two models batches, the other may include the batch dimension.

## Means
The server refuses the ensemble at load: "inconsistent data type", "inconsistent shape".

## Do
Make both declarations the same. If the members really differ, put a converting step between them.

## Sources
Triton core, `ensemble_utils.cc` (`ValidateTensorConsistency`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity, SourceLocation
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import StepBlock, fits, steps, tensors

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Declared:
    """What `who` says of the ensemble's tensor `name`; `batches` is None where it is unknown."""

    name: str
    who: str
    data_type: str | None
    dims: tuple[int, ...] | None
    batches: bool | None
    place: SourceLocation


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each declaration that differs from the first of its tensor."""
    first: dict[str, _Declared] = {}
    for one in _declarations(view):
        known = first.setdefault(one.name, one)
        if None not in (known.data_type, one.data_type) and known.data_type != one.data_type:
            yield _problem(view, known, one, f"{known.data_type}", f"{one.data_type}")
        elif not fits(known.dims, one.dims, one_batches=known.batches is None or known.batches != one.batches):
            yield _problem(view, known, one, f"{list(known.dims or ())}", f"{list(one.dims or ())}")


def _problem(view: ConfiguredModelView, known: _Declared, one: _Declared, had: str, has: str) -> LintProblem:
    return view.problem(
        f"{one.name!r} is {had} of {known.who}, but {has} of {one.who}: the ensemble does not load",
        at=one.place,
        help="declare it the same, or convert it in a step between",
    )


def _declarations(view: ConfiguredModelView) -> Iterator[_Declared]:
    for field in ("input", "output"):
        for block in view.config.blocks(field):
            yield _of_ensemble(block, field, _batches(view.model))
    for step in steps(view.config):
        yield from _of_step(view, step)


def _of_ensemble(block: ConfigMessage, field: str, batches: bool | None) -> _Declared:
    reshape = block.block("reshape")
    dims = (reshape.integers("shape") if reshape else block.integers("dims")) or None
    data_type = block.text("data_type") or None
    name, who = block.text("name") or "", f"the ensemble's {field}"
    return _Declared(name=name, who=who, data_type=data_type, dims=dims, batches=batches, place=block.at("name"))


def _batches(model: ModelFolder) -> bool | None:
    """Return whether a model batches; None when it is unknown."""
    most = model.max_batch_size
    return None if most is None else most > 0


def _of_step(view: ConfiguredModelView, step: StepBlock) -> Iterator[_Declared]:
    member = view.repository.models.get(step.model or "")
    config = member.config if member else None
    if member is None or config is None:
        return
    for field, mapped in (("input", step.inputs), ("output", step.outputs)):
        for tensor in tensors(config, field) or ():
            text = mapped.get(tensor.name)
            if text is not None and text.value is not None:
                yield _Declared(
                    name=text.value,
                    who=f"{member.name}'s {field} {tensor.name}",
                    data_type=tensor.data_type,
                    dims=tensor.dims,
                    batches=_batches(member),
                    place=text.place,
                )


_ENSEMBLE = """name: "all"
platform: "ensemble"
input { name: "X" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] }
ensemble_scheduling { step { model_name: "safety"
  input_map { key: "EMBEDDING" value: "X" }
  output_map { key: "SCORE" value: "Y" } } }
"""
_MEMBER = """name: "safety"
backend: "python"
max_batch_size: 0
input { name: "EMBEDDING" data_type: TYPE_FP32 dims: [ 4 ] }
output { name: "SCORE" data_type: TYPE_FP32 dims: [ -1 ] }
"""
_SPELLED = _ENSEMBLE.replace("dims: [ 4 ]", "dims: [ -1, 4 ]").replace("dims: [ 1 ]", "dims: [ -1, 1 ]")
_BATCHING = _MEMBER.replace("size: 0", "size: 4").replace("[ -1 ]", "[ 1 ]")
_HALF = _MEMBER.replace("FP32", "FP16", 1)
CASES = (
    RuleCase.fires(
        "when a data type differs", {"models/all/config.pbtxt": _ENSEMBLE, "models/safety/config.pbtxt": _HALF}, "6:39"
    ),
    RuleCase.fires(
        "when a size differs",
        {"models/all/config.pbtxt": _ENSEMBLE, "models/safety/config.pbtxt": _MEMBER.replace("[ 4", "[ 5")},
        "6:39",
    ),
    RuleCase.fires(
        "when both batch and have another number of dimensions",
        {"models/all/config.pbtxt": f"max_batch_size: 4 {_SPELLED}", "models/safety/config.pbtxt": _BATCHING},
        "6:39",
        "7:36",
    ),
    RuleCase.quiet(
        "when sizes are variable", {"models/all/config.pbtxt": _ENSEMBLE, "models/safety/config.pbtxt": _MEMBER}
    ),
    RuleCase.quiet(
        "when a model that does not batch includes the batch dimension",
        {"models/all/config.pbtxt": _SPELLED, "models/safety/config.pbtxt": _BATCHING},
    ),
    RuleCase.quiet(
        "when the type is a template",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _MEMBER.replace("TYPE_FP32", "${type}"),
        },
    ),
)
