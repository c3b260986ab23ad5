"""A window delays requests to an engine that batches inside.

## Looks for
`max_queue_delay_microseconds` above 0 for a language-model engine with in-flight batching (not FasterTransformer, not
`V1`).

## Means
The engine adds requests to its batch at every step, so later requests join anyway. The window only delays the first
token. It helps at most for bursts that must start in one step.

## Do
Set it to 0, and leave batching to the engine.

## Sources
server#6863 (the backend refills its own queue each step, so let Triton forward at once).
tensorrtllm_backend, `model_config.md` (`max_queue_delay_microseconds`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import batches_in_flight
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Limit, Unit

ONE_STEP = Limit(
    value=0.005,
    unit=Unit.SECONDS,
    because="one step of a small model's engine on today's GPUs takes milliseconds: a shorter window joins one step",
)
RULE = Rule(
    scope=RuleScope.MODEL,
    severity=LintSeverity.WARNING,
    question=LintTopic.ENGINE,
    limits={"one_engine_step": ONE_STEP},
)

_FIELD = "max_queue_delay_microseconds"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the window."""
    batching = view.config.block("dynamic_batching")
    window = batching.integer(_FIELD) if batching else None
    if batching is None or not window or not batches_in_flight(view.model):
        return
    seconds = window / 1e6
    setting = Setting(path=f"dynamic_batching.{_FIELD}", value=0)
    yield view.problem(
        f"each request waits up to {Unit.SECONDS.show(seconds)} for a batch that the engine forms by itself",
        at=batching.at(_FIELD),
        help="set it to 0",
        fix=ConfigChange(model=view.model.name, settings=(setting,)),
        severity=None if seconds >= ONE_STEP.value else LintSeverity.INFO,
    )


def _model(delay: str, backend: str = "tensorrtllm", name: str = "llm") -> dict[str, str]:
    text = f'name: "llm"\nbackend: "{backend}"\ndynamic_batching {{ {_FIELD}: {delay} }}\n'
    return {f"models/{name}/config.pbtxt": text}


CASES = (
    RuleCase.fires("when a window is set", _model("10000"), "3:20"),
    RuleCase.quiet("when the window is 0 or a template", {**_model("0"), **_model("${delay}", name="other")}),
    RuleCase.quiet(
        "about models that do not batch in flight",
        {**_model("10000", backend="pytorch"), **_model("10000", backend="fastertransformer", name="gpt")},
    ),
)
