"""An instance of a stateful model serves one sequence at a time.

## Looks for
A sequence batcher with strategy `oldest` and a `max_candidate_sequences` of at most 1, or unset. Or with strategy
`direct`, the default, for a model that does not batch.

## Means
An instance has as many sequence slots as `max_candidate_sequences` or the largest batch, at least one. All other
sequences wait until one ends or idles for `max_sequence_idle_microseconds`.

## Do
Set `max_candidate_sequences`, or `max_batch_size`, to the number of open sequences divided by the number of instances.
If the state is too large for that, add instances. Only clients know how many sequences are open at a time.

## Sources
Triton user guide, "Stateful Models"; Triton core, `sequence_batch_scheduler.cc`. Measured on Triton 2.51: without
`max_candidate_sequences`, the second sequence waits for the first. With 4, the fifth does.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import batcher, instances, slots
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.BATCHING)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a batcher with one slot; those of an iterative sequence hold requests, not clients."""
    batching = batcher(view.model)
    if batching is None or slots(view.model) != 1 or batching.flag("iterative_sequence") is not False:
        return
    oldest, count = batching.block("oldest"), instances(view.model)
    field = "max_candidate_sequences" if oldest else "max_batch_size"
    all_ = "" if count in (None, 1) else f", {count} on each device"
    yield view.problem(
        f"an instance of {view.model.name} serves one sequence at a time{all_}: the others wait until it ends",
        at=oldest.place if oldest else batching.place,
        help=f"set {field} to the sequences that are open at a time, per instance",
    )


def _model(more: str, most: int = 0) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "pytorch"\nmax_batch_size: {most}\nsequence_batching {{ {more} }}\n'}


CASES = (
    RuleCase.fires("on strategy `oldest` without a number of candidates", _model("oldest { }", most=8), "3:28"),
    RuleCase.fires(
        "when a model that does not batch has the default strategy",
        _model("max_sequence_idle_microseconds: 5000000"),
        "3:19",
    ),
    RuleCase.quiet("with candidates", _model("oldest { max_candidate_sequences: 8 }")),
    RuleCase.quiet("when each place in a batch is a slot", _model("direct { }", most=8)),
    RuleCase.quiet("about iterative sequences, and templates", _model("iterative_sequence: true ${more}")),
)
