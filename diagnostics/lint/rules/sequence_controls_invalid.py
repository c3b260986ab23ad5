"""The server refuses a setting of the sequence batcher.

## Looks for
Any of these:
- Control tensors without a name, or with another tensor's name.
- A control that appears twice.
- A start, end or ready without exactly one list of two values.
- A `CONTROL_SEQUENCE_CORRID` without a suitable `data_type`, or with such lists.
- A `preferred_batch_size` outside of 1 to `max_batch_size`.
- A `minimum_slot_utilization` outside of 0 to 1.

## Means
The server refuses the model at load: "sequence batching …".

## Do
Declare each control once, as `control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }`. Declare the
correlation id with `data_type`.

## Sources
Triton core, `model_config_utils.cc` (`GetBooleanSequenceControlProperties`, `GetTypedSequenceControlProperties`,
`ValidateModelConfig`). Each was seen to be refused by Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.instances import CORRID, Control, batcher, controls
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_LISTS = ("int32_false_true", "fp32_false_true", "bool_false_true")
_FALSE_AND_TRUE = 2
_ID_TYPES = ("TYPE_UINT64", "TYPE_INT64", "TYPE_UINT32", "TYPE_INT32", "TYPE_STRING")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each setting."""
    batching = batcher(view.model)
    if batching is None:
        return
    reported, named = set[str | None](), set[str]()
    for tensor in batching.blocks("control_input"):
        yield from _tensor(view, tensor, named)
    for control in controls(batching):
        if control.kind is not None and control.kind in reported:
            yield _problem(view, f"{control.kind} appears twice", control.block, "kind")
        reported.add(control.kind)
        yield from _values(view, control)
    yield from _strategy(view, batching)


def _tensor(view: ConfiguredModelView, tensor: ConfigMessage, named: set[str]) -> Iterator[LintProblem]:
    name = tensor.text("name")
    if name == "" and tensor.has("control"):
        yield _problem(view, "a control tensor has no name", tensor, "name")
    if name and name in named:
        yield _problem(view, f"two control tensors are called {name!r}", tensor, "name")
    named.add(name or "")


def _values(view: ConfiguredModelView, control: Control) -> Iterator[LintProblem]:
    block, written = control.block, [name for name in _LISTS if control.block.integers(name) != ()]
    if control.kind is None or not block.complete:
        return
    if control.kind == CORRID:
        type_ = block.text("data_type")
        if written:
            yield _problem(view, "a correlation id has no values for false and true", block, written[0])
        elif type_ is not None and type_ not in _ID_TYPES:
            yield _problem(view, f"a correlation id has one of the types {', '.join(_ID_TYPES)}", block, "data_type")
    elif len(written) != 1:
        yield _problem(view, f"{control.kind} needs one of {', '.join(_LISTS)}", block, "kind")
    elif len(block.texts(written[0])) != _FALSE_AND_TRUE and not _open(block, written[0]):
        yield _problem(view, f"{written[0]} needs two values, for false and for true", block, written[0])


def _open(block: ConfigMessage, name: str) -> bool:
    return any(text.value is None for text in block.texts(name))


def _strategy(view: ConfiguredModelView, batching: ConfigMessage) -> Iterator[LintProblem]:
    oldest, direct, most = batching.block("oldest"), batching.block("direct"), view.model.max_batch_size
    sizes = oldest.integers("preferred_batch_size") if oldest else None
    wrong = [size for size in sizes or () if size < 1 or (most is not None and size > most)]
    if oldest is not None and wrong:
        message = f"preferred_batch_size {wrong[0]} is not from 1 to max_batch_size, {most}"
        yield _problem(view, message, oldest, "preferred_batch_size")
    for text in direct.texts("minimum_slot_utilization") if direct else ():
        share = _number(text.value)
        if share is not None and not 0 <= share <= 1:
            message = "minimum_slot_utilization is from 0 to 1: the model does not load"
            yield view.problem(message, at=text.place)


def _number(text: str | None) -> float | None:
    """Return a number as text format writes it: `inf` is one, and `0.5f`, too."""
    for written in (text or "", (text or "").rstrip("fF")):
        with suppress(ValueError):
            return float(written)
    return None


def _problem(view: ConfiguredModelView, what: str, block: ConfigMessage, field: str) -> LintProblem:
    return view.problem(f"{what}: the model does not load", at=block.at(field))


_START = "{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }"
_ID = "{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 }"


def _model(more: str, most: str = "4") -> dict[str, str]:
    return {"models/a/config.pbtxt": f"max_batch_size: {most}\nsequence_batching {{\n{more}\n}}\n"}


def _tensors(*given: str) -> str:
    return "\n".join(f'control_input {{ name: "{"ABC"[n]}" control [ {one} ] }}' for n, one in enumerate(given))


CASES = (
    RuleCase.fires(
        "when a tensor has no name or another's, or a control appears twice",
        _model(f"control_input {{ control {_START} }}\n{_tensors(_START, _ID)}\n{_tensors('')}"),
        "3:15",
        "4:39",
        "6:17",
    ),
    RuleCase.fires(
        "when there are no values, too many lists, or another number of values than two",
        _model(
            _tensors(
                "{ kind: CONTROL_SEQUENCE_START }",
                "{ kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ] }",
                "{ kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 1 ] }",
            )
        ),
        "3:39",
        "4:39",
        "5:68",
    ),
    RuleCase.fires(
        "when a correlation id has no type, or the values of a flag",
        _model(_tensors("{ kind: CONTROL_SEQUENCE_CORRID }"))
        | {
            "models/b/config.pbtxt": "sequence_batching { control_input { name: 'I' control "
            "{ kind: CONTROL_SEQUENCE_CORRID int32_false_true: [ 0, 1 ] } } }\n"
        },
        "models/a/config.pbtxt:3:37",
        "models/b/config.pbtxt:1:87",
    ),
    RuleCase.fires(
        "when a size is above the largest, and a share above 1",
        _model("oldest { preferred_batch_size: [ 8 ] }")
        | {
            "models/b/config.pbtxt": "sequence_batching { direct { minimum_slot_utilization: 2.5f } }\n",
            "models/c/config.pbtxt": "sequence_batching { direct { minimum_slot_utilization: inf } }\n",
        },
        "models/a/config.pbtxt:3:10",
        "models/b/config.pbtxt:1:56",
        "models/c/config.pbtxt:1:56",
    ),
    RuleCase.quiet(
        "about valid controls", _model(f"oldest {{ preferred_batch_size: [ 1, 4 ] }}\n{_tensors(_START, _ID)}")
    ),
    RuleCase.quiet(
        "about templates",
        _model(_tensors("{ kind: ${kind} }", "{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ ${ready} ] }")),
    ),
)
