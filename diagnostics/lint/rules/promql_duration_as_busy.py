"""A compute duration is used as the time that instances were busy.

## Looks for
A rate of `nv_inference_compute_*_duration_us` in a panel or alert, neither divided by nor multiplied with another rate.
Other expressions may divide what a rule records. For rules, only names with `busy` or `util` count.

## Means
Each request of a batch adds the time of the whole batch. A batch of 8 that takes 10 ms adds 80 ms. The result looks
like utilization, but is too high by the batch size, and exceeds 100 % on one instance.

## Do
For the time per request, divide by `rate(nv_inference_request_success)`. For an upper bound of the busy time, multiply
that by `rate(nv_inference_exec_count)`. The statistics endpoint (`batch_stats`) has the true value.

## Sources
onnxruntime_backend#164 (each request of a batch counts the whole batch's time). Triton, statistics extension.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from diagnostics import names
from diagnostics.lint.metrics import COMPUTE_DURATIONS
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode, parsed
from diagnostics.lint.queries import Use
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)

_BUSY = re.compile("busy|util", re.IGNORECASE)


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report each duration that stands alone, once."""
    tree = parsed(view.query.expr)
    if tree is None or (view.query.use is Use.RECORDING and not _BUSY.search(view.query.name)):
        return
    alone = {node.name for node, above in tree.walk() if _alone(node, above)}
    for name in sorted(alone):
        yield view.problem(
            f"the rate of {name} counts each batch once for each of its requests: it is no busy time",
            at=view.query.place,
            help=f"divide it by rate({names.REQUEST_SUCCESS}) for the time of a request",
        )


def _alone(node: PromqlNode, above: Sequence[PromqlNode]) -> bool:
    if node.name not in COMPUTE_DURATIONS:
        return False
    rated = any(one.kind is NodeKind.CALL and one.name in OVER_TIME for one in above)
    return rated and not any(_related(one) or one.name in ("absent", "count") for one in above)


def _related(node: PromqlNode) -> bool:
    """Return whether a node relates a rate to another, by a quotient or a product."""
    sides = node.children if node.kind is NodeKind.BINARY and node.name in ("/", "*") else ()
    return bool(sides) and all(side.kind is not NodeKind.NUMBER for side in sides)


_INFER = f"rate({names.INFER_DURATION}[5m])"
CASES = (
    RuleCase.fires(
        "when a duration is shown as a share", recording(f"sum by (model) ({_INFER}) / 1e6", record="busy"), "5:15"
    ),
    RuleCase.quiet(
        "about the time per request or of executions",
        recording(
            f"{_INFER} / rate(nv_inference_request_success[5m]) * rate(nv_inference_exec_count[5m])",
            record="busy",
        ),
    ),
    RuleCase.quiet(
        "when a rule records the duration for others",
        recording(f"sum by (model) ({_INFER}) / 1e6", record="compute_seconds"),
    ),
    RuleCase.quiet(
        "about the queue: its rate is the number of waiting requests (Little)",
        recording("rate(nv_inference_queue_duration_us[5m]) / 1e6", record="busy"),
    ),
)
