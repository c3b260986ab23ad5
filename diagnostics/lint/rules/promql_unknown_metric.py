"""An expression uses a metric that no release of Triton exports.

## Looks for
Metrics that begin with `nv_`, that no rule of the same file records, and that no current release exports:
`nv_inference_compute_duration_us`, `nv_inference_load_ratio`.

## Means
The panel is empty, the alert never fires, and an autoscaler does not scale. Nothing reports the wrong name.

## Do
Use the current name. `curl HOST:8002/metrics` shows what your server exports; some metrics need a flag.

## Sources
Triton core, `metrics.cc` and `metric_model_reporter.cc`; user guide, "Metrics". server repository, `deploy/*`
(dashboards with metrics of 20.03).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.deployment_files import inner
from diagnostics.lint.metrics import PREFIX, RETIRED, RETIRED_DURATION, RETIRED_LOAD_RATIO, exported
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.promql import parsed
from diagnostics.lint.rule import LintTopic, QueryView, Rule, RuleCase, RuleScope, recording

RULE = Rule(scope=RuleScope.QUERY, severity=LintSeverity.WARNING, question=LintTopic.WATCHED)

_TODAY = {
    RETIRED_DURATION: names.INFER_DURATION,
    RETIRED_LOAD_RATIO: f"{names.PENDING_REQUESTS} or {names.QUEUE_DURATION}",
    names.FIRST_RESPONSE.replace("inference_", ""): names.FIRST_RESPONSE,
}


def lint(view: QueryView) -> Iterator[LintProblem]:
    """Report each name that nobody exports, once."""
    tree = parsed(view.query.expr)
    named = {selector.name for selector in tree.selectors()} if tree else set()
    ours = {name for name in named if name.startswith(PREFIX) and ":" not in name}
    for name in sorted(ours - _recorded(view)):
        if not exported(name) and "variable" not in name:
            until = f"no release since {RETIRED[name]} exports" if name in RETIRED else "no release exports"
            today = next((_TODAY[old] for old in _TODAY if name.startswith(old)), "")
            yield view.problem(
                f"{until} {name}", at=view.query.place, help=f"today: {today}" if today else "compare it with /metrics"
            )


def _recorded(view: QueryView) -> set[str]:
    found = (value.get("record") for value in inner(view.documents) if isinstance(value, dict))
    return {name for name in found if isinstance(name, str)}


CASES = (
    RuleCase.fires("when a metric was removed", recording("avg(nv_inference_load_ratio)"), "5:15"),
    RuleCase.fires("when a metric never existed", recording("rate(nv_inference_requests_total[5m])"), "5:15"),
    RuleCase.quiet(
        "about current metrics, histograms and summaries",
        recording("nv_inference_first_response_histogram_ms_bucket + nv_inference_queue_summary_us_sum"),
    ),
    RuleCase.quiet("when a rule records the metric", recording("nv_busy + 1", record="nv_busy")),
)
