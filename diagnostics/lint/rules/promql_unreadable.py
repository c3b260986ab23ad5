"""An expression over Triton's metrics is not PromQL.

## Looks for
Expressions of rules and panels that use metrics of Triton and cannot be parsed. Variables of a dashboard are replaced
first.

## Means
Prometheus refuses the whole rule file. A panel shows only an error.

## Do
Try the expression with `promtool promql format`, or in Prometheus.

## Sources
Prometheus, "Querying basics". `promql-parser`, which follows Prometheus' grammar, reads the expressions.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.metrics import PREFIX
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import MAX_CHARACTERS, available, parsed, readable
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report an expression that cannot be parsed."""
    if PREFIX not in view.query.expr:
        return
    if not available():
        message = "the expression is not linted: promql-parser is not installed"
        yield view.problem(
            message, at=view.query.place, help="pip install 'triton-diagnostics[lint]'", severity=LintSeverity.INFO
        )
    elif not readable(view.query.expr):
        message = f"the expression is not linted: it is longer than {MAX_CHARACTERS} characters"
        yield view.problem(message, at=view.query.place, help="record its parts", severity=LintSeverity.INFO)
    elif parsed(view.query.expr) is None:
        yield view.problem("the expression is not PromQL", at=view.query.place, help="try it in Prometheus")


CASES = (
    RuleCase.fires(
        "when an expression is too long to parse",
        recording(" + ".join([names.INFERENCE_COUNT] * (MAX_CHARACTERS // len(names.INFERENCE_COUNT)))),
        "5:15",
    ),
    RuleCase.fires("when a bracket is missing", recording("sum(rate(nv_inference_count[5m])"), "5:15"),
    RuleCase.quiet(
        "about variables of dashboards",
        recording("topk($most, sum by ($by) (rate(nv_inference_count{model=~'${m:regex}'}[$__rate_interval])))"),
    ),
    RuleCase.quiet("about queries of other things", recording("{app=`x`} |= `error`".replace("{", '"{') + '"')),
)
