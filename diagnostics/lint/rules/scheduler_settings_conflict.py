"""Settings of a scheduler exclude each other.

## Looks for
Any of these:
- `dynamic_batching` next to `sequence_batching`.
- `preserve_ordering` with several priority levels or a timeout that delays.
- `priority_levels` without a `default_priority_level` among them.
- A response cache for a decoupled model or one with a sequence batcher.

## Means
The server refuses the model at load.

## Do
Keep the one you need. A `default_priority_level` is required with priority levels.

## Sources
Triton core, `model_config_utils.cc` (`ValidateModelConfig`); `model_config.proto` (`scheduling_choice`, one of three).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each pair of settings that the server refuses."""
    config, batching = view.config, view.config.block("dynamic_batching")
    if config.has("dynamic_batching") and config.has("sequence_batching"):
        yield view.problem(
            "a model has either a dynamic or a sequence batcher: it does not load", at=config.at("sequence_batching")
        )
    if batching is not None:
        yield from _priorities(view, batching)
        yield from _ordering(view, batching)
    yield from _cache(view)


def _priorities(view: ConfiguredModelView, batching: ConfigMessage) -> Iterator[LintProblem]:
    levels, default = batching.integer("priority_levels"), batching.integer("default_priority_level")
    if levels and default is not None and not 1 <= default <= levels:
        yield view.problem(
            f"default_priority_level has to be from 1 to {levels}, but is {default}: the model does not load",
            at=batching.at("priority_levels"),
        )


def _ordering(view: ConfiguredModelView, batching: ConfigMessage) -> Iterator[LintProblem]:
    if not batching.flag("preserve_ordering"):
        return
    policies = (*batching.blocks("default_queue_policy"), *_of_levels(batching))
    delays = any(
        policy.text("timeout_action") in ("DELAY", "1") and policy.integer("default_timeout_microseconds")
        for policy in policies
    )
    if delays or (batching.integer("priority_levels") or 0) > 1:
        what = "a timeout that delays" if delays else "priorities"
        yield view.problem(
            f"preserve_ordering and {what} exclude each other: the model does not load",
            at=batching.at("preserve_ordering"),
        )


def _of_levels(batching: ConfigMessage) -> Iterator[ConfigMessage]:
    for entry in batching.blocks("priority_queue_policy"):
        yield from entry.blocks("value")


def _cache(view: ConfiguredModelView) -> Iterator[LintProblem]:
    cache, policy = view.config.block("response_cache"), view.config.block("model_transaction_policy")
    if cache is None or not cache.flag("enable"):
        return
    decoupled = policy is not None and policy.flag("decoupled")
    if decoupled or view.config.has("sequence_batching"):
        what = "decoupled models" if decoupled else "sequences"
        yield view.problem(f"the response cache serves no {what}: the model does not load", at=cache.at("enable"))


def _model(more: str) -> str:
    return f'name: "a"\nbackend: "python"\nmax_batch_size: 8\n{more}\n'


CASES = (
    RuleCase.fires("when priorities have no default", _model("dynamic_batching { priority_levels: 2 }"), "4:20"),
    RuleCase.fires(
        "when priorities should keep their order",
        _model("dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }"),
        "4:20",
    ),
    RuleCase.fires(
        "when a decoupled model is cached",
        _model("model_transaction_policy { decoupled: true }\nresponse_cache { enable: true }"),
        "5:18",
    ),
    RuleCase.fires("on two batchers", _model("dynamic_batching { }\nsequence_batching { }"), "5:1"),
    RuleCase.quiet(
        "when the settings are compatible",
        _model("dynamic_batching { priority_levels: 2 default_priority_level: 2 }\nresponse_cache { enable: true }"),
    ),
)
