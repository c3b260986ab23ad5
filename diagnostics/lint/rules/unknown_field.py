"""A field is none that Triton's configurations have, as far as `diag` knows.

## Looks for
A field name, at any depth, that `model_config.proto` of Triton 2.73 does not have at that place. Fields behind an
unknown one are not looked at.

## Means
A server that does not know the field either refuses the configuration. One of a newer release may know it: that is why
this is for information only.

## Do
Correct the name; a similar one is told where there is one. Where a newer release has the field, waive it with the
release as the reason.

## Sources
Triton common, `model_config.proto`. protobuf, "Text Format Language Specification": unknown fields are errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from diagnostics.lint.config_fields import MAP, ROOT, fields_of, known
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope
from diagnostics.tuning.pbtxt import Field, Message

RULE = Rule(scope=Scope.ANY_MODEL, severity=Severity.INFO, question=Question.READABLE)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of each field that is not known."""
    for field, message in _unknown(see.config.message, ROOT):
        near = get_close_matches(field.name, fields_of(message), n=1)
        yield see.problem(
            f"{message} has no field {field.name!r}, as of Triton 2.73",
            at=see.config.file.place(field.start),
            help=f"did you mean {near[0]}?" if near else "",
        )


def _unknown(message: Message, name: str) -> Iterator[tuple[Field, str]]:
    fields = fields_of(name)
    for field in message.fields:
        if "${" in field.name or field.name.startswith("["):
            continue
        if field.name not in fields:
            yield field, name
            continue
        for value in field.values():
            if isinstance(value, Message):
                yield from _inside(value, fields[field.name])


def _inside(message: Message, held: str) -> Iterator[tuple[Field, str]]:
    if known(held):
        yield from _unknown(message, held)
    elif held.startswith(MAP):
        for value in message.messages("value"):
            yield from _unknown(value, held.removeprefix(MAP))


_KNOWN = 'name: "a"\nparameters { key: "k" value { string_value: "v" } }\n[x.y] { z: 1 }\n${more}\n'
CASES = (
    Case(
        title="speaks when a name is misspelled, at any depth",
        files={"models/a/config.pbtxt": "max_size: 4\ninstance_group { counts: 2 }\nparameters { value { v: '' } }"},
        places=("models/a/config.pbtxt:1:1", "models/a/config.pbtxt:2:18", "models/a/config.pbtxt:3:22"),
    ),
    Case(
        title="speaks when an ensemble's step has a field of another message",
        files={"models/a/config.pbtxt": "ensemble_scheduling { step [ { model_name: 'b' }, { name: 'b' } ] }"},
        places=("models/a/config.pbtxt:1:53",),
    ),
    Case(
        title="is silent about known fields, extensions and templates",
        files={"models/a/config.pbtxt": _KNOWN},
    ),
)
