"""A counter is used as a current value.

## Looks for
Counters of Triton, vLLM and trtllm-serve outside of `rate`, `increase` and similar functions. Two uses are allowed:
presence (`absent`, `count`, the right side of `and` and `unless`) and earlier values (`offset`).

## Means
A counter holds everything since the server started, and falls to 0 at a restart. A ratio of two counters is the mean
since the start, which hides what happens now.

## Do
Take `rate(…[5m])` of each counter first, then sum, then divide.

## Sources
Prometheus, "Metric types" and "Query functions" (`rate`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from diagnostics.lint.metrics import is_counter
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode, parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)

_ASKING = OVER_TIME | {
    "delta",
    "idelta",
    "deriv",
    "resets",
    "changes",
    "absent",
    "absent_over_time",
    "present_over_time",
    "count_over_time",
    "timestamp",
    "count",
    "group",
}
_SETS = ("and", "unless")


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report each counter that is used raw, once."""
    tree = parsed(view.query.expr)
    raw = {node.name for node, above in tree.walk() if _raw(node, above)} if tree else set()
    for name in sorted(raw):
        yield view.problem(
            f"{name} counts since the server started: its value does not show the current state",
            at=view.query.place,
            help=f"take rate({name}[5m])",
        )


def _raw(node: PromqlNode, above: Sequence[PromqlNode]) -> bool:
    if node.kind is not NodeKind.SELECTOR or not is_counter(node.name):
        return False
    if any(one.name in _ASKING for one in above if one.kind in (NodeKind.CALL, NodeKind.AGGREGATE)):
        return False
    inside = (*above, node)
    for around, within in pairwise(inside):
        if around.kind is NodeKind.BINARY and (_only_requested(around, within) or _difference(around)):
            return False
    return True


def _only_requested(around: PromqlNode, within: PromqlNode) -> bool:
    return around.name in _SETS and around.children[1] is within


def _difference(around: PromqlNode) -> bool:
    """Return whether one counter is taken from itself, as it was before."""
    named = [[selector.name for selector in side.selectors()] for side in around.children]
    return around.name == "-" and named[0] == named[1]


def _rules(expr: str) -> dict[str, str]:
    return {"rules.yaml": f"groups:\n  - name: triton\n    rules:\n      - alert: X\n        expr: {expr}\n"}


CASES = (
    RuleCase.fires("when an alert compares a counter", _rules("nv_inference_request_failure > 0"), "5:15"),
    RuleCase.fires(
        "for both counters of a ratio",
        _rules("sum(nv_inference_queue_duration_us) / sum(nv_inference_request_success)"),
        "5:15",
        "5:15",
    ),
    RuleCase.quiet(
        "about rates, and about the presence of a counter",
        _rules("absent(nv_inference_count) or rate(nv_inference_count[5m]) == 0 and nv_inference_count"),
    ),
    RuleCase.quiet(
        "about increases since an earlier time, and about gauges",
        _rules("nv_inference_count - nv_inference_count offset 5m > nv_inference_pending_request_count"),
    ),
)
