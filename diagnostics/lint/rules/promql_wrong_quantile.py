"""A quantile is taken of something other than latencies.

## Looks for
`quantile(…)` over a rate of duration counters or over their ratio. Or `histogram_quantile` over buckets aggregated
without `le`.

## Means
A quantile over series describes models and servers, not requests: "P50 latency" is then the mean of the middle model.
Without `le` there are no buckets left, and the result is empty.

## Do
Use percentiles from a histogram: `histogram_quantile(0.9, sum by (le) (rate(…_bucket[5m])))`. For the first response,
set `--metrics-config histogram_latencies=true`, or measure in the client.

## Sources
Prometheus, "Histograms and summaries". monitoring-dashboard-samples#881 ("P50 latency" as a quantile over models).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.metrics import DURATIONS
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import NodeKind, PromqlNode, parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report the first quantile that is none of requests."""
    tree = parsed(view.query.expr)
    for node, _ in tree.walk() if tree else ():
        message = _over_series(node) or _without_buckets(node)
        if message:
            yield view.problem(message, at=view.query.place, help="take it from a histogram's buckets, kept by le")
            return


def _over_series(node: PromqlNode) -> str:
    ours = node.kind is NodeKind.AGGREGATE and node.name == "quantile"
    if ours and any(one.name in DURATIONS for one in node.children[-1].selectors()):
        return "quantile over duration counters compares models and servers, not requests"
    return ""


def _without_buckets(node: PromqlNode) -> str:
    if node.kind is not NodeKind.CALL or node.name != "histogram_quantile" or len(node.children) < 2:
        return ""
    inner = node.children[1]
    buckets = any(one.name.endswith("_bucket") for one in inner.selectors())
    if buckets and inner.kind is NodeKind.AGGREGATE and inner.by is not None and "le" not in inner.by:
        return "histogram_quantile needs le, which the aggregation drops: the result is empty"
    return ""


_BUCKETS = f"rate({names.FIRST_RESPONSE}_bucket[5m])"
CASES = (
    RuleCase.fires(
        "on a quantile over models", recording("quantile(0.5, rate(nv_inference_request_duration_us[5m]))"), "5:15"
    ),
    RuleCase.fires("when le is dropped", recording(f"histogram_quantile(0.9, sum by (model) ({_BUCKETS}))"), "5:15"),
    RuleCase.quiet("when le is kept", recording(f"histogram_quantile(0.9, sum by (le, model) ({_BUCKETS}))")),
)
