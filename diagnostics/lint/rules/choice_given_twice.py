"""A configuration sets two fields that exclude each other, so the model does not load.

## Looks for
More than one of these in one block:
- `latest`, `all` and `specific` in `version_policy`.
- `direct` and `oldest` in `sequence_batching`.
- `zero_data` and `data_file` in an `initial_state`.
- `zero_data`, `random_data` and `input_data_file` in an input of `model_warmup`. Other rules report two schedulers
  (`scheduler-settings-conflict`) and those of an ensemble (`ensemble-forbidden-field`).

## Means
The server cannot parse the file: "Field … is specified along with field …, another member of oneof …".

## Do
Keep the intended one.

## Sources
Triton common, `model_config.proto` (`oneof`). protobuf, `text_format.cc`. Seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.config_fields import TypedMessage, typed_messages
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.READABLE)

_SCHEDULERS = "scheduling_choice"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the second field of each choice."""
    for found in typed_messages(view.model):
        yield from _of_message(view, found)


def _of_message(view: ConfiguredModelView, found: TypedMessage) -> Iterator[LintProblem]:
    made: dict[str, str] = {}
    for field, held in found.known:
        first = made.setdefault(held.choice, field.name) if held.choice not in ("", _SCHEDULERS) else field.name
        if first != field.name:
            message = f"either {first} or {field.name} may be written, not both: the model does not load"
            yield view.problem(message, at=view.config.file.place(field.start), help="keep the one that is meant")


def _model(policy: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "python"\nversion_policy {{ {policy} }}\n'}


CASES = (
    RuleCase.fires("when a version policy has two choices", _model("latest { num_versions: 1 } all { }"), "2:45"),
    RuleCase.fires(
        "when a sequence batcher has two strategies", "sequence_batching { direct { } oldest { } }\n", "1:32"
    ),
    RuleCase.quiet("about one choice, and a template", _model("all { } ${more}")),
)
