"""An alert can never fire, or a panel's comparison is never true.

## Looks for
- A comparison that no value passes. A share (`nv_gpu_utilization`, `nv_cpu_utilization`, `nv_cache_util`, `up`) above
  1. A counter, its rate or a byte count below 0. `absent(…) == 0`, or two limits that exclude each other.
- Two operands whose series never match. Examples: failures by `reason` over successes without that label, a model's
  metric against a GPU's.
- A label value that Triton never exports: a `reason` in lower case, an unknown value of an engine's family.
- A label that a family does not have: `model` of a GPU's or the host's metric.
- The queue of an ensemble in a linted repository: requests wait in its members.
- A rate over a range shorter than two scrapes.

## Means
The expression is always empty. The alert looks like a healthy system.

## Do
Write shares from 0 to 1. Sum both operands by the labels they share:
`sum by (model) (rate(…)) / sum by (model) (rate(…))`. Use ranges of at least four scrape intervals.

## Sources
Triton user guide, "Metrics"; Triton core, `metric_model_reporter.cc`, `infer_request.h` (reasons of failures).
Prometheus, "Operators" (vector matching) and "Functions" (`rate` needs two samples).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

from diagnostics import names
from diagnostics.lint.metrics import ENGINE_LABELS, ENGINE_VALUES, OF_HOST, REASONS, of_gpu
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import OVER_TIME, NodeKind, PromqlNode, never, parsed, unmatched, values
from diagnostics.lint.queries import Use
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording
from diagnostics.units import Limit, Unit

SHORTEST_RANGE = Limit(
    value=10,
    unit=Unit.SECONDS,
    because="a rate needs two samples, and Triton is scraped every 5 s at most in public configurations",
)
RULE = Rule(
    scope=RuleScope.QUERY,
    severity=LintSeverity.WARNING,
    question=LintTopic.WATCHED,
    limits={"shortest_range": SHORTEST_RANGE},
)
_HELP = {
    "share": "shares are from 0 to 1",
    "match": "sum both sides by the labels that they share",
}


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report the first reason for which a query is always empty."""
    tree = parsed(view.query.expr)
    reason = next(_reasons(view, tree), None) if tree else None
    if reason is not None:
        what, help_ = reason
        subject = "the alert never fires" if view.query.use is Use.ALERT else "the expression is always empty"
        yield view.problem(f"{subject}: {what}", at=view.query.place, help=help_)


def _reasons(view: QueryView, tree: PromqlNode) -> Iterator[tuple[str, str]]:
    for node, above in tree.walk():
        if any(_spares(one, node, above) for one in above):
            continue
        if node.kind is NodeKind.SELECTOR:
            yield from _of_selector(view, node, above)
        elif never(node):
            yield _of_comparison(node)
        elif label := unmatched(node):
            yield f"the operands of {node.name} never match: only one of them has the label {label}", _HELP["match"]
        elif node.name == "and" and (limits := _excluding(node)):
            yield limits, "join them by `or`"


def _spares(one: PromqlNode, node: PromqlNode, above: tuple[PromqlNode, ...]) -> bool:
    """Return whether what is around a node makes a value of its emptiness, or has another that may be there."""
    if one.kind is NodeKind.CALL and one.name.startswith("absent"):
        return True
    if one.kind is not NodeKind.BINARY:
        return False
    path = (*above, node)
    inside = path[path.index(one) + 1]
    return one.name == "or" or (one.name == "unless" and inside is one.children[1])


def _of_comparison(node: PromqlNode) -> tuple[str, str]:
    low, high = values(node.children[0])
    known = f"from {low:g} to {high:g}" if high < inf else f"{low:g} or more"
    known = f"always {low:g}" if low == high else known
    return f"the left side of {node.name} is {known}", _HELP["share"] if high == 1.0 else "correct the limit"


def _of_selector(view: QueryView, node: PromqlNode, above: tuple[PromqlNode, ...]) -> Iterator[tuple[str, str]]:
    label, known = ENGINE_LABELS.get(node.name, names.REASON), ENGINE_VALUES.get(node.name)
    known = REASONS if node.name == names.REQUEST_FAILURE else known
    value = node.equals.get(label)
    if known and value and "$" not in value and value not in known:
        yield f"no {node.name} has {label}={value!r}", f"it is one of {', '.join(sorted(known))}"
    if of_gpu(node.name) or node.name in OF_HOST:
        for own in (names.MODEL, names.VERSION):
            if node.equals.get(own):
                yield f"{node.name} has no label {own}", "a GPU or a host belongs to no one model"
    if node.name == names.QUEUE_DURATION and _is_ensemble(view, node.equals.get(names.MODEL, "")):
        yield f"{node.equals[names.MODEL]} is an ensemble, which has no queue of its own", "watch its members' queues"
    rate = bool(above) and above[-1].kind is NodeKind.CALL and above[-1].name in OVER_TIME
    if rate and 0 < node.range_seconds < SHORTEST_RANGE.value:
        yield f"{node.range_seconds:g} s hold no two scrapes", "take at least four scrape intervals"


def _is_ensemble(view: QueryView, name: str) -> bool:
    """Return whether every model of this name that is linted is an ensemble; False where there is none."""
    found = [repository.models[name] for repository in view.project.repositories if name in repository.models]
    return bool(found) and all(model.ensemble for model in found)


def _excluding(node: PromqlNode) -> str:
    """Return the two limits on one expression that exclude each other; empty where there are none."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    for one in _joined(node):
        if one.kind is NodeKind.BINARY and len(one.children) == 2 and one.children[1].kind is NodeKind.NUMBER:
            subject, limit = repr(one.children[0]), one.children[1].value
            if one.name in (">", ">="):
                low[subject] = max(low.get(subject, -inf), limit)
            elif one.name in ("<", "<="):
                high[subject] = min(high.get(subject, inf), limit)
    for subject, least in low.items():
        if high.get(subject, inf) < least:
            return f"it would have to be above {least:g} and below {high[subject]:g} at once"
    return ""


def _joined(node: PromqlNode) -> Iterator[PromqlNode]:
    if node.kind is NodeKind.BINARY and node.name == "and":
        for child in node.children:
            yield from _joined(child)
    else:
        yield node


def _alert(expr: str) -> dict[str, str]:
    return {"rules.yaml": f"groups:\n  - name: triton\n    rules:\n      - alert: X\n        expr: {expr}\n"}


_AT = ("rules.yaml:5:15",)
CASES = (
    RuleCase(
        title="fires when a share is compared with percent",
        files=_alert("max(nv_gpu_utilization) > 90"),
        places=_AT,
    ),
    RuleCase(
        title="fires when failures by reason are divided by successes",
        files=_alert("rate(nv_inference_request_failure[5m]) / rate(nv_inference_request_success[5m]) > 0.05"),
        places=_AT,
    ),
    RuleCase(
        title="fires when a reason is in lower case",
        files=_alert("increase(nv_inference_request_failure{reason='rejected'}[5m]) > 0"),
        places=_AT,
    ),
    RuleCase(
        title="fires when two limits exclude each other",
        files=_alert("nv_inference_pending_request_count > 100 and nv_inference_pending_request_count < 10"),
        places=_AT,
    ),
    RuleCase(
        title="fires when a range holds one scrape",
        files=recording("rate(nv_inference_count[5s])"),
        places=_AT,
    ),
    RuleCase.quiet(
        "when operands share labels, or emptiness is intended",
        _alert(
            "sum by (model) (rate(nv_inference_request_failure[5m])) / "
            "sum by (model) (rate(nv_inference_request_success[5m])) > 0.05 or absent(nv_gpu_utilization > 2)"
        ),
    ),
)
