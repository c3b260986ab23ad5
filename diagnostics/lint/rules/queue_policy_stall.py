"""A queue policy turns off the batcher's prefetching, and requests may stall.

## Looks for
A `max_queue_size`, a timeout, an override or priorities of a dynamic batcher. Engines are left out.

## Means
With any of them, the batcher prepares no batch ahead, and a wake-up can be lost. Requests then wait up to 0.5 s
although instances are free, or are refused meanwhile.

## Do
If overload must be refused, keep the policy and watch for `scheduler-stall`. Otherwise limit load in front of Triton.

## Sources
Triton core, `scheduler_utils.cc` (`SupportPrefetching`) and `dynamic_batch_scheduler.cc`. Measured on 24.10 with a
limit of 4: stalls of 0.5 s held 480 of 768 refused requests. The instance was 59 % busy.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.engines import is_engine
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.INFO, question=LintTopic.QUEUE)

_LIMITS = ("max_queue_size", "default_timeout_microseconds")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the policy that turns prefetching off."""
    batching = view.config.block("dynamic_batching")
    if batching is None or is_engine(view.model) is not False:
        return
    if _limits(batching.blocks("default_queue_policy")) or batching.integer("priority_levels"):
        field = "priority_levels" if batching.integer("priority_levels") else "default_queue_policy"
        yield view.problem(
            f"{field} turns off prefetching: the batcher may sleep up to 500 ms with work at hand",
            at=batching.at(field),
            help="keep it where overload has to be refused, and watch for scheduler-stall",
        )


def _limits(policies: tuple[ConfigMessage, ...]) -> bool:
    return any(
        policy.flag("allow_timeout_override") or any(policy.integer(field) for field in _LIMITS) for policy in policies
    )


def _model(batching: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'name: "a"\nbackend: "pytorch"\ndynamic_batching {{ {batching} }}\n'}


CASES = (
    RuleCase.fires("when the queue has a limit", _model("default_queue_policy { max_queue_size: 64 }"), "3:20"),
    RuleCase.quiet("when there is no policy", _model("max_queue_delay_microseconds: 100")),
    RuleCase.quiet("when the limit is 0, which means no limit", _model("default_queue_policy { max_queue_size: 0 }")),
)
