"""A value has another type than its field, so the model does not load.

## Looks for
At any depth of a configuration:
- Words instead of a number, a quoted text or `true` and `false`, or the reverse.
- Numbers that the field cannot hold.
- Words that an enumeration does not have, such as `TYPE_FLOAT`.
- A list or a block where the field takes one value.
- A list of values without the `:` before it.

## Means
The server cannot parse the file, prints the place on standard error, and refuses the model: "failed to read text
proto".

## Do
Write the value in the field's type. A newer release may have a word that is unknown here: waive it, with the release as
the reason.

## Sources
protobuf, `text_format.cc` (`ConsumeFieldValue`), and Triton common, `model_config.proto` of 2.73. Each kind was seen to
be refused by Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.config_fields import FieldType, is_message, nearest, refusal, typed_messages
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.pbtxt import Field, ListValue, Scalar, TextMessage

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.READABLE)

_LONGEST_SHOWN = 40


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each value."""
    for found in typed_messages(view.model):
        for field, held in found.known:
            yield from _of_field(view, field, held)


def _of_field(view: ConfiguredModelView, field: Field, held: FieldType) -> Iterator[LintProblem]:
    listed = isinstance(field.value, ListValue)
    if listed and not held.repeated:
        yield _problem(view, field, "takes one value, not a list", field.value)
    elif listed and not field.colon and not is_message(held.type):
        yield _problem(view, field, "needs a ':' before its list", field.value)
    else:
        for value in field.values():
            yield from _of_value(view, field, held.type, value)


def _of_value(view: ConfiguredModelView, field: Field, type_: str, value: object) -> Iterator[LintProblem]:
    if isinstance(value, TextMessage):
        if not is_message(type_):
            yield _problem(view, field, "takes a value, not a block", value)
    elif isinstance(value, Scalar) and is_message(type_):
        if not value.templates:
            yield _problem(view, field, f"takes a block, not {_shown(value)}", value)
    elif isinstance(value, Scalar):
        wrong = refusal(value, type_)
        near = nearest(value, type_) if wrong else ""
        if wrong:
            yield _problem(view, field, f"{wrong}, not {_shown(value)}", value, f"did you mean {near}?" if near else "")


def _problem(
    view: ConfiguredModelView, field: Field, what: str, at: Scalar | TextMessage | ListValue, help_: str = ""
) -> LintProblem:
    place = view.config.file.place(at.start)
    return view.problem(f"{field.name} {what}: the model does not load", at=place, help=help_)


def _shown(scalar: Scalar) -> str:
    text = " ".join(scalar.text.split())
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _model(more: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f"{more}\n"}


_LOADS = """name: 'a' backend: "py" 'thon'; max_batch_size: 0x4,
input [ { name: "X" data_type: 11 dims: 1 }, { name: "Z\\x41" data_type: TYPE_BF16 dims: [ -1, 010 ] } ]
instance_group < kind: KIND_CPU count: 1 >
dynamic_batching: { preserve_ordering: t max_queue_delay_microseconds: 18446744073709551615 }
parameters [ { key: "k" value: { string_value: "v" } }, { } ]
newest { field: [ word ] }
"""
_TEMPLATES = """name: "${name}"
max_batch_size: ${most}
dynamic_batching { ${more} preferred_batch_size: [ ${sizes} ] }
model_transaction_policy { decoupled: ${decoupled} }
instance_group ${groups}
"""
CASES = (
    RuleCase.fires(
        "when an enumeration lacks the word, or it is in other letters or quotes",
        _model("instance_group { kind: KIND_CPUU }\ninput { data_type: type_fp32 }\noutput { data_type: 'TYPE_FP32' }"),
        "1:24",
        "2:20",
        "3:21",
    ),
    RuleCase.fires(
        "when a number is a text, a fraction, too large, negative or invalid octal",
        _model(
            'max_batch_size: "4"\ninput { dims: [ 1, 2.0 ] }\ninstance_group { count: 4294967296 gpus: 08 }\n'
            "dynamic_batching { priority_levels: -1 }"
        ),
        "1:17",
        "2:20",
        "3:25",
        "3:42",
        "4:37",
    ),
    RuleCase.fires(
        "when a text lacks quotes or has a bad escape, or a flag is another word",
        _model(
            "backend: python\nplatform: '\\q'\nmodel_transaction_policy { decoupled: yes }\n"
            "response_cache { enable: 2 }"
        ),
        "1:10",
        "2:11",
        "3:39",
        "4:26",
    ),
    RuleCase.fires(
        "when a block and a value, or a value and a list, are mixed up",
        _model(
            "dynamic_batching: true\nmax_batch_size { }\nname: [ 'a' ]\ninput { dims [ 1 ] }\n"
            "parameters { key: 'k' value: 'v' }"
        ),
        "1:19",
        "2:16",
        "3:7",
        "4:14",
        "5:30",
    ),
    RuleCase.fires(
        "when a share is a word", _model("sequence_batching { direct { minimum_slot_utilization: half } }"), "1:56"
    ),
    RuleCase.quiet("about all notations that the server accepts", _model(_LOADS)),
    RuleCase.quiet("about templates", _model(_TEMPLATES)),
)
