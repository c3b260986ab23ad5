"""A queue policy does not have the intended effect.

## Looks for
Any of these:
- `allow_timeout_override` without a default timeout.
- A timeout that is not longer than the batching window.
- A timeout that only delays, without `max_queue_size`.
- A `max_queue_size` below `max_batch_size`.
- A timeout beyond the latency budget in the settings.
- Any timeout for an engine.

## Means
A client's timeout can only shorten the default, so nothing expires without a default. A request that expires within the
window is refused although instances are free. Delayed requests still execute and count in the queue after their clients
have left. A queue shorter than a batch refuses requests that a batch could hold. The TensorRT-LLM and vLLM backends
accept requests at once, so Triton's queue is empty and nothing in it expires.

## Do
Set `default_timeout_microseconds` to what a client still waits for, with `timeout_action: REJECT`. Set `max_queue_size`
to what executes within that time. For engines, limit load in front of Triton.

## Sources
Triton core, `scheduler_utils.cc` (`PolicyQueue`). User guide, "Queue Policy". tensorrtllm_backend#412, #255.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.engines import batches_in_flight
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.units import Unit

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.QUEUE)

_TIMEOUT = "default_timeout_microseconds"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report what each policy does not do."""
    batching = view.config.block("dynamic_batching")
    policies = batching.blocks("default_queue_policy") if batching else ()
    for entry in batching.blocks("priority_queue_policy") if batching else ():
        policies += entry.blocks("value")
    for policy in policies:
        if batches_in_flight(view.model):
            yield from _of_engine(view, policy)
        elif batching is not None:
            yield from _timeout(view, policy, batching)
            yield from _size(view, policy)


def _of_engine(view: ConfiguredModelView, policy: ConfigMessage) -> Iterator[LintProblem]:
    if policy.integer(_TIMEOUT):
        yield view.problem(
            "the engine takes requests out of Triton's queue at once: none of them expires there",
            at=policy.at(_TIMEOUT),
            help="limit the load in front of Triton, and watch the engine's waiting requests",
        )


def _timeout(view: ConfiguredModelView, policy: ConfigMessage, batching: ConfigMessage) -> Iterator[LintProblem]:
    timeout, window = policy.integer(_TIMEOUT), batching.integer("max_queue_delay_microseconds")
    budget = view.settings.latency_budget_seconds
    if timeout == 0 and policy.flag("allow_timeout_override"):
        message = "clients can only shorten the default timeout, which is missing: nothing ever expires"
        yield view.problem(message, at=policy.at("allow_timeout_override"), help=f"set {_TIMEOUT}")
    if not timeout:
        return
    if window and timeout <= window:
        message = f"requests expire after {_shown(timeout)}, within the batching window of {_shown(window)}"
        yield view.problem(message, at=policy.at(_TIMEOUT), help="make the window shorter than the timeout")
    elif budget and timeout / 1e6 > budget:
        message = f"requests expire after {_shown(timeout)}, beyond the latency budget of {Unit.SECONDS.show(budget)}"
        yield view.problem(message, at=policy.at(_TIMEOUT), help="refuse requests that no client waits for any more")
    if policy.text("timeout_action") in ("DELAY", "1") and policy.integer("max_queue_size") == 0:
        message = "requests that expire are only put back, and the queue has no limit: under overload it grows"
        yield view.problem(message, at=policy.at("timeout_action"), help="REJECT them, or set max_queue_size")


def _size(view: ConfiguredModelView, policy: ConfigMessage) -> Iterator[LintProblem]:
    size, most = policy.integer("max_queue_size"), view.model.max_batch_size
    if size and most and size < most:
        yield view.problem(
            f"a queue of {size} never holds a batch of {most}, and refuses requests that fit into one",
            at=policy.at("max_queue_size"),
            help=f"set it to {most} or more",
        )


def _shown(microseconds: int) -> str:
    return Unit.SECONDS.show(microseconds / 1e6)


def _model(policy: str, backend: str = "pytorch", window: str = "1000") -> dict[str, str]:
    text = f"""name: "a"
backend: "{backend}"
max_batch_size: 8
dynamic_batching {{ max_queue_delay_microseconds: {window}
  default_queue_policy {{ {policy} }} }}
"""
    return {"models/a/config.pbtxt": text}


_AT = "models/a/config.pbtxt:5:26"
CASES = (
    RuleCase.fires("when an override has no default", _model("allow_timeout_override: true"), _AT),
    RuleCase.fires("when requests expire within the window", _model(f"{_TIMEOUT}: 1000"), _AT),
    RuleCase.fires("when the queue is shorter than a batch", _model("max_queue_size: 4"), _AT),
    RuleCase.fires(
        "when a timeout only delays, beyond the budget",
        _model(f"timeout_action: DELAY {_TIMEOUT}: 500000"),
        _AT,
        "5:48",
        settings=LintSettings(latency_budget_seconds=0.2),
    ),
    RuleCase.fires(
        "when an engine's requests have a timeout", _model(f"{_TIMEOUT}: 500000", backend="tensorrtllm"), _AT
    ),
    RuleCase.quiet(
        "when the policy refuses in time",
        _model(f"{_TIMEOUT}: 100000 allow_timeout_override: true max_queue_size: 64"),
        settings=LintSettings(latency_budget_seconds=0.2),
    ),
    RuleCase.quiet(
        "when the values are templates",
        _model(f"{_TIMEOUT}: ${{timeout}} max_queue_size: ${{size}}", window="${window}"),
    ),
)
