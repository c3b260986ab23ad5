"""A field that is no list is written twice, so the model does not load.

## Looks for
Fields of the configuration itself, such as `max_batch_size` or `dynamic_batching`, more than once.

## Means
The server cannot parse the file: "Non-repeated field is specified multiple times". Merges of branches leave such pairs.

## Do
Keep one of them.

## Sources
protobuf, `text_format.cc` (as Triton sets its parser). Seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.config_fields import SINGLE
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, ModelView, Question, Rule, Scope

RULE = Rule(scope=Scope.ANY_MODEL, severity=Severity.ERROR, question=Question.READABLE)


def lint(see: ModelView) -> Iterator[Problem]:
    """Tell of each such field, at the last."""
    for name in sorted(SINGLE):
        if see.config.times(name) > 1:
            message = f"{name} is written {see.config.times(name)} times: the model does not load"
            yield see.problem(message, at=see.config.at(name), help="keep one of them")


CASES = (
    Case(
        title="speaks when a merge left both",
        files={"models/a/config.pbtxt": 'backend: "python"\nmax_batch_size: 4\nmax_batch_size: 8\n'},
        places=("models/a/config.pbtxt:3:1",),
    ),
    Case(
        title="is silent when a list is written in parts",
        files={
            "models/a/config.pbtxt": 'backend: "python"\ninstance_group { count: 1 }\ninstance_group { count: 2 }\n'
        },
    ),
)
