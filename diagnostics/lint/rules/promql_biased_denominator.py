"""A mean is divided by more than was counted, so it shrinks as traffic falls.

## Looks for
A divisor `clamp_min(rate(…), n)` where one event per range does not reach `n`. Or a divisor with an added number
(`1 + rate(…)`).

## Means
The floor prevents a division by zero, but replaces the true rate whenever that is lower. With `clamp_min(rate(…), 1)`,
a server with one request in ten seconds shows a tenth of its latency. Autoscalers that read it see no load.

## Do
Divide by the rate itself. Without traffic the ratio is NaN, and no comparison fires on NaN. If NaN is a problem, filter
with `> 0` on the divisor.

## Sources
IEEE 754 (0 divided by 0). server#8979 (a shipped rule under-reports), tutorials repository,
`triton-metrics_prometheus-rule.yaml`.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.metrics import DURATIONS
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode, parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report the first divisor that is raised."""
    tree = parsed(view.query.expr)
    for node, _ in tree.walk() if tree else ():
        raised = _raised(node.children[1]) if node.kind is NodeKind.BINARY and node.name == "/" else ""
        if raised:
            yield view.problem(
                f"the divisor is at least {raised}, also when less was counted: the quotient is too small then",
                at=view.query.place,
                help="divide by the rate itself",
            )
            return


def _raised(divisor: PromqlNode) -> str:
    """Return by what a divisor is raised above what was counted; empty when it is not.

    A duration is counted in microseconds, of which one event adds thousands.
    """
    if any(selector.name in DURATIONS for selector in divisor.selectors()):
        return ""
    if divisor.kind is NodeKind.CALL and divisor.name == "clamp_min" and len(divisor.children) == 2:
        counted, floor = divisor.children
        return f"{floor.value:g}" if counted.over_time and floor.value > _one_event(counted) else ""
    if divisor.kind is NodeKind.BINARY and divisor.name == "+":
        numbers = [side.value for side in divisor.children if side.kind is NodeKind.NUMBER]
        return f"{numbers[0]:g}" if divisor.over_time and numbers and numbers[0] > _one_event(divisor) else ""
    return ""


def _one_event(counted: PromqlNode) -> float:
    """Return what a rate or increase is when one event is counted in its range: the least that is not 0."""
    found = []
    for node, _ in counted.walk():
        if node.kind is NodeKind.CALL and node.name in OVER_TIME:
            seconds = max((one.range_seconds for one in node.selectors()), default=0.0)
            found.append(1.0 if node.name == "increase" else 1.0 / seconds if seconds else 0.0)
    return max(found, default=0.0)


_QUEUE, _DONE = f"rate({names.QUEUE_DURATION}[1m])", f"rate({names.REQUEST_SUCCESS}[1m])"
CASES = (
    RuleCase.fires("when a rate is clamped to 1", recording(f"sum({_QUEUE}) / clamp_min(sum({_DONE}), 1)"), "5:15"),
    RuleCase.fires("when 1 is added", recording(f"{_QUEUE} / (1 + {_DONE})"), "5:15"),
    RuleCase.quiet(
        "when the floor is below one event of the range", recording(f"{_QUEUE} / clamp_min({_DONE}, 0.001)")
    ),
    RuleCase.quiet("when the rate itself divides", recording(f"{_QUEUE} / ({_DONE} > 0)")),
)
