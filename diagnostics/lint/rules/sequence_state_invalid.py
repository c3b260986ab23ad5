"""An implicit state of a stateful model contradicts its initial state, another state or an output.

## Looks for
As errors:
- More than one `initial_state` of a state.
- An `initial_state` without a name or data, or with a dimension of -1.
- One with another data type or shape than the state.
- One with a `data_file` that is not in the model's folder `initial_state`.

As warnings:
- Two states with the same input or output name.
- A model output with a state's name but another type or shape.

## Means
The server refuses the model at load. If two states have one name, the second is ignored.

## Do
Declare `initial_state { name: "…" data_type: … dims: [ … ] zero_data: true }` with the state's type. Give a size for
each variable dimension of the state.

## Sources
Triton core, `sequence_batch_scheduler.cc` and `sequence_state.cc`; user guide, "Implicit State Management". Each error
was seen to be refused by Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.instances import batcher
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import ANY_SIZE, DeclaredTensor, fits, tensors

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_FOLDER = "initial_state"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each contradiction."""
    batching, seen = batcher(view.model), set[tuple[str, str]]()
    outputs = {tensor.name: tensor for tensor in tensors(view.config, "output") or ()}
    for state in batching.blocks("state") if batching else ():
        for number, initial in enumerate(state.blocks("initial_state")):
            what = "is the second of its state" if number else _contradiction(view, state, initial)
            if what:
                yield view.problem(f"the initial state {what}: the model does not load", at=initial.place)
        for field in ("input_name", "output_name"):
            name = state.text(field)
            if name and (field, name) in seen:
                message = f"two states have the {field} {name!r}: the second is ignored"
                yield view.problem(message, at=state.at(field), severity=LintSeverity.WARNING)
            seen.add((field, name or ""))
        yield from _output(view, state, outputs)


def _contradiction(view: ConfiguredModelView, state: ConfigMessage, initial: ConfigMessage) -> str:
    """Return the first reason for which the server refuses it, empty for none."""
    if initial.text("name") == "":
        return "has no name"
    types = [block.text("data_type") for block in (state, initial)]
    if None not in types and types[0] != types[1]:
        return f"is of {types[1] or 'no type'}, the state of {types[0] or 'none'}"
    return _of_shape(state, initial) or _of_data(view, initial)


def _of_shape(state: ConfigMessage, initial: ConfigMessage) -> str:
    ours, theirs = initial.integers("dims"), state.integers("dims")
    if ours is None or theirs is None:
        return ""
    if ANY_SIZE in ours:
        return "has a dimension of any size"
    fit = len(ours) == len(theirs) and all(b in (a, ANY_SIZE) for a, b in zip(ours, theirs, strict=True))
    return "" if fit else f"has the shape {list(ours)}, the state {list(theirs)}"


def _of_data(view: ConfiguredModelView, initial: ConfigMessage) -> str:
    if initial.has("zero_data") is False and initial.has("data_file") is False:
        return "has neither zero_data nor data_file"
    file = initial.text("data_file")
    if file and not (view.model.path / _FOLDER / file).exists():
        return f"is to be in {_FOLDER}/{file}, which is not there"
    return ""


def _output(
    view: ConfiguredModelView, state: ConfigMessage, outputs: Mapping[str, DeclaredTensor]
) -> Iterator[LintProblem]:
    name, type_, dims = state.text("output_name"), state.text("data_type"), state.integers("dims")
    tensor = outputs.get(name or "")
    if tensor is None:
        return
    known = bool(type_ and tensor.data_type)
    if (known and tensor.data_type != type_) or not fits(tensor.dims, dims or None):
        message = f"the output {name!r} is written with another type or shape than the state of this name"
        yield view.problem(message, at=state.at("output_name"), severity=LintSeverity.WARNING)


def _model(more: str, state: str = "data_type: TYPE_FP32 dims: [ 4, -1 ]", rest: str = "") -> dict[str, str]:
    head = 'backend: "onnxruntime"\noutput { name: "Y" data_type: TYPE_FP32 dims: [ 4, 2 ] }\n'
    names = 'input_name: "I" output_name: "O"'
    return {"models/a/config.pbtxt": f"{head}sequence_batching {{\n  state {{ {names} {state}\n{more} }}\n{rest} }}\n"}


_GOOD = 'initial_state { name: "i" data_type: TYPE_FP32 dims: [ 4, 2 ] zero_data: true }'
_PLACE = ("models/a/config.pbtxt:5:15",)
CASES = (
    RuleCase(
        title="fires when an initial state has no name", files=_model(_GOOD.replace('name: "i"', "")), places=_PLACE
    ),
    RuleCase(
        title="fires when an initial state has another type",
        files=_model(_GOOD.replace("FP32", "INT32")),
        places=_PLACE,
    ),
    RuleCase(
        title="fires when an initial state has another shape",
        files=_model(_GOOD.replace("4, 2", "5, 2")),
        places=_PLACE,
    ),
    RuleCase(title="fires when a size is variable", files=_model(_GOOD.replace("4, 2", "4, -1")), places=_PLACE),
    RuleCase(
        title="fires when an initial state has no data",
        files=_model(_GOOD.replace("zero_data: true", "")),
        places=_PLACE,
    ),
    RuleCase(
        title="fires when the data file is missing",
        files={**_model(_GOOD.replace("zero_data: true", 'data_file: "x"')), "models/a/initial_state/y": ""},
        places=_PLACE,
    ),
    RuleCase.fires(
        "when two states share a name, or an output has other dimensions",
        _model("", rest='state { input_name: "I" output_name: "Y" dims: [ 3 ] }'),
        "6:9",
        "6:25",
    ),
    RuleCase.quiet("when states and outputs match", _model(_GOOD, rest='state { input_name: "K" output_name: "Y" }')),
    RuleCase.quiet("about templates", _model(_GOOD.replace("4, 2", "${n}").replace("FP32", "${t}"))),
)
