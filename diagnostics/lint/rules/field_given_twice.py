"""A single-valued field, or a key of a map, appears twice.

## Looks for
Fields such as `max_batch_size` or `dynamic_batching` more than once in one block, at any depth. Also a key of
`parameters` or of another map more than once.

## Means
The server cannot parse the file: "Non-repeated field is specified multiple times". In two cases the file loads without
a message, and the last value applies:
- A repeated key.
- A field whose first value is its default, such as `max_batch_size: 0`.

Merged branches leave such pairs.

## Do
Keep one of them.

## Sources
protobuf, `text_format.cc` (as Triton sets its parser), and "Encoding: Maps". Seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.config_fields import FieldType, TypedMessage, typed_messages, words_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.pbtxt import Field, Scalar, TextMessage

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.READABLE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each such field, and each key."""
    for found in typed_messages(view.model):
        single = [(field, held) for field, held in found.known if not held.repeated]
        if len({field.name for field, _ in single}) < len(single):
            yield from _fields(view, single)
        yield from _keys(view, found)


def _fields(view: ConfiguredModelView, single: list[tuple[Field, FieldType]]) -> Iterator[LintProblem]:
    written: dict[str, list[tuple[Field, FieldType]]] = {}
    for field, held in single:
        written.setdefault(field.name, []).append((field, held))
    for name, found in written.items():
        if len(found) > 1:
            refused = any(_counts(field, held) for field, held in found[:-1])
            what = "the model does not load" if refused else "the last counts"
            yield view.problem(
                f"{name} is written {len(found)} times: {what}",
                at=view.config.file.place(found[-1][0].start),
                help="keep one of them",
                severity=None if refused else LintSeverity.WARNING,
            )


def _counts(field: Field, held: FieldType) -> bool:
    """Return whether the parser sees that a field was written: not where it has its default, or a template may be it.

    Fields of proto3 that are no blocks, and not of a choice, have no other trace.
    """
    value = field.value
    if not isinstance(value, Scalar) or held.choice:
        return True
    first = words_of(held.type)[:1]
    default = value.integer() == 0 or value.value in ("", "false", "False", "f", *first)
    return not default and not value.templates


def _keys(view: ConfiguredModelView, found: TypedMessage) -> Iterator[LintProblem]:
    seen = set[tuple[str, str]]()
    for field, held in found.known:
        for value in field.values() if held.type.startswith("{") else ():
            key = value.scalar("key") if isinstance(value, TextMessage) else None
            if key is not None and not key.templates:
                yield from _key(view, field.name, key) if (field.name, key.value) in seen else ()
                seen.add((field.name, key.value))


def _key(view: ConfiguredModelView, field: str, key: Scalar) -> Iterator[LintProblem]:
    message = f"{field} has the key {key.value!r} twice: the last counts"
    yield view.problem(
        message, at=view.config.file.place(key.start), help="keep one of them", severity=LintSeverity.WARNING
    )


CASES = (
    RuleCase.fires("when a merge left both", 'backend: "python"\nmax_batch_size: 4\nmax_batch_size: 8\n', "3:1"),
    RuleCase.fires(
        "for a field inside a block and for a repeated key",
        "dynamic_batching { priority_levels: 1 priority_levels: 2 }\n"
        "parameters { key: 'k' value { string_value: '1' } }\nparameters { key: 'k' }\nparameters { key: 'l' }\n",
        "1:39",
        "3:19",
    ),
    RuleCase.fires(
        "when the first value is the default, which the server cannot see",
        "max_batch_size: 0\nmax_batch_size: 4\n",
        "2:1",
    ),
    RuleCase.quiet(
        "when a list is written in parts, and about templates",
        'backend: "python"\ninstance_group { count: 1 }\ninstance_group { count: 2 }\n'
        "parameters { key: '${k}' }\nparameters { key: '${k}' }\n${more}\n${more}\n",
    ),
)
