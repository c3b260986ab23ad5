"""A field is not part of Triton's configuration, as far as `diag` knows.

## Looks for
A field name, at any depth, that `model_config.proto` of Triton 2.73 does not have at that place. Also extensions
(`[x.y]`): it has none. Fields inside an unknown one are not checked.

## Means
A server that does not know the field refuses the model: "has no field named …". It is an error if the name looks like a
misspelled field, or belongs in another part of the configuration. Any other name may belong to a newer release: that is
a warning.

## Do
Correct the name. The message suggests a similar one if it exists. If a newer release has the field, waive it with the
release as the reason.

## Sources
Triton common, `model_config.proto`. protobuf, "Text Format Language Specification": unknown fields are errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.config_fields import is_field, typed_messages
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.spelling import close_to

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.WARNING, question=LintTopic.READABLE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each field that is not known."""
    for found in typed_messages(view.model):
        for field in found.unknown():
            near = close_to(field.name, found.types, most=1)
            yield view.problem(
                f"{found.shown} has no field {field.name!r}, as of Triton 2.73: such a server refuses the model",
                at=view.config.file.place(field.start),
                help=f"did you mean {near[0]}?" if near else "",
                severity=LintSeverity.ERROR if near or field.name.startswith("[") or is_field(field.name) else None,
            )


_KNOWN = 'name: "a"\nparameters { key: "k" value { string_value: "v" } }\n${more}\n'
CASES = (
    RuleCase.fires(
        "when a name is misspelled, at any depth",
        "max_size: 4\ninstance_group { counts: 2 }\nparameters { value { v: '' } }",
        "1:1",
        "2:18",
        "3:22",
    ),
    RuleCase.fires(
        "on an extension, and on unknown names in a map's entry",
        "[x.y] { z: 1 }\nparameters { name: 'k' }\n",
        "1:1",
        "2:14",
    ),
    RuleCase.fires(
        "when an ensemble's step has a field of another message",
        "ensemble_scheduling { step [ { model_name: 'b' }, { name: 'b' } ] }",
        "1:53",
    ),
    RuleCase.quiet("about known fields and templates", _KNOWN),
)
