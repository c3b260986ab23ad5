"""A rate is taken of a value that can fall.

## Looks for
`rate`, `irate` or `increase` of a gauge of Triton or the TensorRT-LLM backend. The few that only grow are left out
(`iteration_counter`, `reused`).

## Means
These functions treat every fall as a restart and add what follows. The more a gauge moves, the higher its "rate".

## Do
Show the gauge itself or `avg_over_time`. For its slope, use `deriv` or `delta`.

## Sources
Prometheus, "Query functions" (`rate` "should only be used with counters"). tutorials repository, dashboard of the
autoscaling example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics.lint.metrics import ENGINE_LABELS, GAUGES, GROWING_GAUGES, PREFIX
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode, parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report each gauge that a rate is taken of, once."""
    tree = parsed(view.query.expr)
    found = {node.name for node, above in tree.walk() if _falls(node) and _rated(above)} if tree else set()
    for name in sorted(found):
        yield view.problem(
            f"{name} rises and falls: its rate means nothing",
            at=view.query.place,
            help="show the gauge, or avg_over_time of it",
        )


def _falls(node: PromqlNode) -> bool:
    if node.kind is not NodeKind.SELECTOR or node.name not in GAUGES or node.name.startswith(f"{PREFIX}cache_"):
        return False
    value = node.matchers.get(ENGINE_LABELS.get(node.name, ""), "")
    return not any(growing in value for growing in GROWING_GAUGES.get(node.name, ()))


def _rated(above: Sequence[PromqlNode]) -> bool:
    return bool(above) and above[-1].kind is NodeKind.CALL and above[-1].name in OVER_TIME


CASES = (
    RuleCase.fires("on a rate of waiting requests", recording("rate(nv_inference_pending_request_count[5m])"), "5:15"),
    RuleCase.quiet(
        "about a gauge that only grows, and about counters",
        recording(
            "rate(nv_trt_llm_general_metrics{general_type='iteration_counter'}[5m]) + rate(nv_inference_count[5m])"
        ),
    ),
)
