"""A member of an ensemble is stateful, so the ensemble's clients must send sequence ids.

## Looks for
Ensembles with a member that has a sequence batcher.

## Means
An ensemble passes its request's correlation id, start and end to all its members. The stateful member refuses a request
to the ensemble without a correlation id. A client may send the next request of a sequence before it has the previous
answer. A member with several instances, ahead of the stateful one, can then reorder them.

## Do
Send `sequence_id`, `sequence_start` and `sequence_end` with each request to the ensemble. Keep one request in flight
per sequence.

## Sources
Triton user guide, "Ensemble Models" and "Stateful Models". Seen on Triton 2.51: "must specify a non-zero or non-empty
correlation ID".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import batcher
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.INFO, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the first stateful member; an iterative sequence is the server's own affair."""
    for step in steps(view.config):
        member = view.named(step.model) if step.model else None
        batching = batcher(member) if member else None
        if batching is not None and batching.flag("iterative_sequence") is False:
            yield view.problem(
                f"{step.model} is stateful: clients of {view.model.name} have to send a sequence's id, start and end",
                at=step.block.at("model_name"),
            )
            return


_ENSEMBLE = 'platform: "ensemble"\nensemble_scheduling { step { model_name: "asr" } }\n'
CASES = (
    RuleCase.fires(
        "when a member has a sequence batcher",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/asr/config.pbtxt": 'backend: "python"\nsequence_batching { oldest { } }\n',
        },
        "2:30",
    ),
    RuleCase.quiet(
        "when no member has one, or it iterates",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/asr/config.pbtxt": 'backend: "python"\nsequence_batching { iterative_sequence: true }\n',
        },
    ),
)
