"""A queue accepts requests that no client will wait for.

## Looks for
The settings have a latency budget, and a dynamic batcher's queue has neither `max_queue_size` nor a timeout. Engines
are left out, because they have their own queue.

## Means
Under overload the queue grows without end. Each request waits longer than the one before, and every answer is late.

## Do
Set `default_queue_policy { default_timeout_microseconds: … }` to the budget. Or limit the load in front of Triton and
waive this. `queue-policy-stall` describes what a policy costs.

## Sources
Triton user guide, "Queue Policy" (0 is no limit, and no timeout). Beyer et al., "Site Reliability Engineering",
"Handling Overload".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import is_engine
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.units import Unit

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.INFO, question=LintTopic.QUEUE)

_LIMITS = ("max_queue_size", "default_timeout_microseconds")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a queue without limit where a latency budget is known."""
    batching, budget = view.config.block("dynamic_batching"), view.settings.latency_budget_seconds
    if batching is None or not budget or is_engine(view.model) is not False:
        return
    policies = [*batching.blocks("default_queue_policy")]
    for entry in batching.blocks("priority_queue_policy"):
        policies += entry.blocks("value")
    if batching.complete and all(policy.integer(field) == 0 for policy in policies for field in _LIMITS):
        yield view.problem(
            f"under overload the queue has no end, but requests may take {Unit.SECONDS.show(budget)}",
            at=view.config.at("dynamic_batching"),
            help=f"set default_queue_policy {{ default_timeout_microseconds: {round(budget * 1e6)} }}",
        )


_MODEL = 'name: "a"\nbackend: "pytorch"\ndynamic_batching { }\n'
_LIMITED = _MODEL.replace("{ }", "{ default_queue_policy { max_queue_size: 64 } }")
_BUDGET = LintSettings(latency_budget_seconds=0.2)
CASES = (
    RuleCase.fires("without a limit", _MODEL, "3:1", settings=_BUDGET),
    RuleCase.quiet("with a limit", _LIMITED, settings=_BUDGET),
    RuleCase.quiet("without a budget in the settings", _MODEL),
)
