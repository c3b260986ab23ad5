"""Series with different meanings are summed, or drawn on one axis.

## Looks for
The TensorRT-LLM backend's families have a label that says what each series is (`kv_cache_block_type`, `request_type`,
…).
- An aggregation neither matches nor keeps that label.
- A panel shows all values of a family with different units (blocks, tokens, shares, ids).

## Means
The sum of free blocks, used blocks, tokens per block and a share from 0 to 1 means nothing. On one axis, large values
hide small ones: a full cache is a line at the bottom.

## Do
Select the value: `nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"}`.

## Sources
TensorRT-LLM, `custom_metrics_reporter.cc`. tutorials repository, dashboard of the autoscaling example.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from diagnostics import names
from diagnostics.lint.metrics import ENGINE_LABELS, OF_ONE_UNIT
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import NodeKind, PromqlNode, parsed
from diagnostics.lint.queries import Use
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)

_COUNTING = ("count", "group", "count_values")


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report each family that is mixed, once."""
    tree = parsed(view.query.expr)
    reported = set[str]()
    for node, above in tree.walk() if tree else ():
        label = ENGINE_LABELS.get(node.name) if node.kind is NodeKind.SELECTOR else None
        message = _mixed(view, node, above, label) if label and label not in node.matchers else ""
        if message and node.name not in reported:
            reported.add(node.name)
            yield view.problem(message, at=view.query.place, help=f"choose one value of {label}")


def _mixed(view: QueryView, node: PromqlNode, above: Sequence[PromqlNode], label: str) -> str:
    around = [one for one in above if one.kind is NodeKind.AGGREGATE and one.name not in _COUNTING]
    if around and all(one.by is not None and label not in one.by for one in around):
        return f"{around[-1].name} mixes the values of {label}, which mean different things"
    requested = any(one.kind is NodeKind.CALL and one.name.startswith("absent") for one in above)
    if view.query.use is Use.PANEL and not requested and not around and node.name not in OF_ONE_UNIT:
        return f"the panel draws values of {label} that have different units on one axis"
    return ""


def _panel(expr: str) -> dict[str, str]:
    return {"board.json": f'{{"panels": [{{"title": "KV", "targets": [{{"expr": "{expr}"}}]}}]}}\n'}


_KV = names.ENGINE_KV
CASES = (
    RuleCase.fires("when values are summed", recording(f"sum by (model) ({names.ENGINE_KV})"), "5:15"),
    RuleCase.fires("when a panel draws all values", _panel(names.ENGINE_KV), "1:51"),
    RuleCase.quiet(
        "when one value is selected, or values stay separate",
        recording(f"sum({_KV}{{kv_cache_block_type='used'}}) > 0 and sum by (kv_cache_block_type) ({_KV})"),
    ),
    RuleCase.quiet("about requests on one axis", _panel(names.ENGINE_REQUESTS)),
)
