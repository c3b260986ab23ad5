"""A sequence that pauses for one second loses its state.

## Looks for
A sequence batcher without `max_sequence_idle_microseconds`, or with 0: both mean 1,000,000.

## Means
If no request of a sequence arrives for that long, the server ends it and reassigns its slot. The sequence's next
request is refused unless it starts the sequence again. With a longer time, clients that have left hold slots longer.

## Do
Set it to the longest pause between two requests of one sequence. In speech, this is the speaker's longest pause.

## Sources
Triton common, `model_config.proto` (`max_sequence_idle_microseconds`). Triton 2.51 shows the default in the
configuration it serves, and refuses the request after a pause: "must specify the START flag".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import batcher
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.INFO, question=LintTopic.QUEUE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a time that nobody chose; an iterative sequence has no pauses of a client."""
    batching = batcher(view.model)
    if batching is None or batching.flag("iterative_sequence") is not False:
        return
    if batching.integer("max_sequence_idle_microseconds") == 0:
        yield view.problem(
            f"a sequence of {view.model.name} that pauses for 1 s, the default, is ended and its state is lost",
            at=batching.place,
            help="set max_sequence_idle_microseconds to the longest pause between two requests of a client",
        )


def _model(more: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "pytorch"\nsequence_batching {{ {more} }}\n'}


CASES = (
    RuleCase.fires("when no time is set", _model("direct { }"), "2:19"),
    RuleCase.quiet("when a time is set", _model("max_sequence_idle_microseconds: 1000000")),
    RuleCase.quiet("about a template", _model("max_sequence_idle_microseconds: ${idle}")),
)
