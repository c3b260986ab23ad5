"""Too many instances take the requests that would form a batch.

## Looks for
More than two instances of a model per GPU, with a batcher that does not wait (`max_queue_delay_microseconds` of 0).

## Means
Without a window, the batcher gives each request to an idle instance at once. Batches form only while every instance is
busy. Small executions then share the GPU, each slower than alone.

## Do
Use two instances: one copies while the other computes, and requests wait for a batch. Measure both with `diag explain`.
Models that leave most of a GPU idle may gain from more instances.

## Sources
Triton user guide, "Optimization" (two instances overlap copies and computing). server#2399, server#3066 (a third
instance added nothing), server#7075 (four were slower than one).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import is_engine
from diagnostics.lint.instances import groups, may_run_on_gpu
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.units import Limit, Unit

FOR_OVERLAP = Limit(
    value=2,
    unit=Unit.COUNT,
    because="two let one copy while the other computes: user guide, Optimization; more need a reason",
)
RULE = Rule(
    scope=RuleScope.MODEL,
    severity=LintSeverity.WARNING,
    question=LintTopic.OVERLAP,
    limits={"instances_per_gpu": FOR_OVERLAP},
)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the group that keeps batches small."""
    batching, most = view.config.block("dynamic_batching"), view.model.max_batch_size
    waits = batching.integer("max_queue_delay_microseconds") if batching else None
    if waits != 0 or not most or most < 2 or is_engine(view.model) is not False or not may_run_on_gpu(view.model):
        return
    for group in groups(view.model) or ():
        if group.kind != "KIND_CPU" and group.count and group.count > FOR_OVERLAP.value:
            yield view.problem(
                f"batches form only while all {group.count} instances of a GPU are busy",
                at=group.block.place,
                help="go down to 2, or let the batcher wait a little, and compare with diag explain",
            )


def _model(group: str, delay: str = "") -> dict[str, str]:
    text = (
        f'backend: "onnxruntime"\nmax_batch_size: 8\ndynamic_batching {{ {delay} }}\ninstance_group [ {{ {group} }} ]\n'
    )
    return {"models/a/config.pbtxt": text}


CASES = (
    RuleCase.fires("on more than two instances per GPU", _model("count: 4 kind: KIND_GPU"), "4:18"),
    RuleCase.quiet("when the batcher waits", _model("count: 4", "max_queue_delay_microseconds: 500")),
    RuleCase.quiet("about CPU instances", _model("count: 4 kind: KIND_CPU")),
    RuleCase.quiet("about two instances", _model("count: 2 kind: KIND_GPU")),
    RuleCase.quiet("when the count is a template", _model("count: ${count}")),
)
