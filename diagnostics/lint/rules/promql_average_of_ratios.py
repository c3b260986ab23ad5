"""Ratios are averaged as if each model or server had the same traffic.

## Looks for
`avg`, `sum` or `quantile` over a ratio of rates.

## Means
A model with one request counts as much as one with a million. An idle model lowers the mean or makes it NaN. With two
models, one of them idle, the result shows half of the queue time.

## Do
Sum, then divide: `sum(rate(a)) / sum(rate(b))`.

## Sources
server#8979, server#8980 (a shipped autoscaling rule under-reports by the number of models). Prometheus, "Recording
rules" ("do not take an average of averages").
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.metrics import is_counter
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import NodeKind, PromqlNode, parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)

_MIXING = ("avg", "sum", "quantile")


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report the first quotient that is averaged."""
    tree = parsed(view.query.expr)
    for node, _ in tree.walk() if tree else ():
        if node.kind is NodeKind.AGGREGATE and node.name in _MIXING and _quotient(node.children[-1]):
            yield view.problem(
                f"{node.name} over a quotient weighs a model without traffic like one with",
                at=view.query.place,
                help="sum both sides first, then divide",
            )
            return


def _quotient(node: PromqlNode) -> bool:
    """Return whether a node is a quotient of rates of our counters, perhaps times a number."""
    if node.kind is not NodeKind.BINARY or node.name not in ("/", "*"):
        return False
    if any(side.kind is NodeKind.NUMBER for side in node.children):
        return any(_quotient(side) for side in node.children)
    ours = all(any(is_counter(one.name) for one in side.selectors()) for side in node.children)
    return node.name == "/" and ours and all(side.over_time for side in node.children)


_QUEUE, _DONE = f"rate({names.QUEUE_DURATION}[1m])", f"rate({names.REQUEST_SUCCESS}[1m])"
CASES = (
    RuleCase.fires("when a ratio is averaged", recording(f"avg({_QUEUE} / {_DONE} / 1000)"), "5:15"),
    RuleCase.quiet("when sums are divided", recording(f"sum({_QUEUE}) / sum({_DONE})")),
    RuleCase.quiet("about the largest ratio", recording(f"max({_QUEUE} / {_DONE})")),
)
