"""A configuration is not protobuf text format, so its model does not load.

## Looks for
A `config.pbtxt` that cannot be parsed: an open bracket, a field without a value, a value without a field.

## Means
The server refuses the model at load. Under `--exit-on-error=true`, the default, it exits at start.

## Do
Correct the text at the reported place. This rule accepts unknown field names, because newer releases add fields.

## Sources
protobuf, "Text Format Language Specification". Triton core, `model_config_utils.cc` (`GetNormalizedModelConfig`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.repository import Difficulty
from diagnostics.lint.rule import LintTopic, Rule, RuleCase, RuleScope, TroubleView

RULE = Rule(scope=RuleScope.READING, severity=LintSeverity.ERROR, question=LintTopic.READABLE)


def lint(view: TroubleView) -> Iterator[LintProblem]:
    """Report a configuration that is not text format."""
    trouble = view.trouble
    if trouble.difficulty is Difficulty.MALFORMED:
        yield view.problem(trouble.message, at=trouble.place, help=trouble.help)


CASES = (
    RuleCase.fires(
        "when a block is not closed, and where",
        {"models/a/config.pbtxt": 'name: "a"\ninput [ { name: "X"\n', "models/b/config.pbtxt": 'name: "b"\n'},
        "3:1",
    ),
    RuleCase.quiet(
        "about fields that it does not know, and about templates",
        'name: "a"\nnewest_field { x: 1 }\nmax_batch_size: ${size}\n',
    ),
)
