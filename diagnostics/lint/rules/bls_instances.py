"""A model that calls an engine has fewer instances than the engine's batch size.

## Looks for
A Python model calls an engine of the repository and has fewer instances than that engine's `max_batch_size`. The call
shows in a parameter such as `tensorrt_llm_model_name`, or as a name in its code. A model that awaits its calls, or
hands them to threads, is left out: an instance may have several open.

## Means
Each request holds an instance of the calling model until the engine has answered. The engine never has more requests
than there are such instances, so its in-flight batch stays small.

## Do
Raise `instance_group.count` to the engine's batch size. Or call the engine from an ensemble, whose requests hold no
instance.

## Sources
tensorrtllm_backend, `model_config.md` (`bls_instance_count`). server#4137, tensorrtllm_backend#416.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.engines import called_models, engine_of, is_engine, keeps_several_calls_open
from diagnostics.lint.instances import instances
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.OVERLAP)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the engine that gets too few requests."""
    count = instances(view.model)
    if view.model.backend != names.PYTHON_BACKEND or count is None or keeps_several_calls_open(view.model):
        return
    called = sorted(called_models(view.model) or ())
    engines = [engine for name in called if (engine := view.named(name)) and is_engine(engine)]
    for engine in engines:
        most = _batch(engine)
        if most and count < most:
            setting = Setting(path="instance_group.count", value=most)
            yield view.problem(
                f"{count} instances call {engine.name}, which could work on {most} requests at once",
                at=view.config.at("instance_group"),
                help=f"raise the count to {most}, or call the engine from an ensemble",
                fix=ConfigChange(model=view.model.name, settings=(setting,)) if most <= _MOST_TO_PATCH else None,
            )


# What `diag` itself sets at most; more is to be weighed by hand.
_MOST_TO_PATCH = 1024


def _batch(engine: ModelFolder) -> int | None:
    built = engine_of(engine)
    most = built.integer("build_config", "max_batch_size") if built else None
    return most or engine.max_batch_size


_CALLS = 'parameters { key: "tensorrt_llm_model_name" value { string_value: "llm" } }\n'
_BLS = f'name: "bls"\nbackend: "python"\ninstance_group {{ count: 4 kind: KIND_CPU }}\n{_CALLS}'
_ENGINE = 'name: "llm"\nbackend: "tensorrtllm"\nmax_batch_size: 64\n'
CASES = (
    RuleCase.fires(
        "when the engine could work on more",
        {"models/bls/config.pbtxt": _BLS, "models/llm/config.pbtxt": _ENGINE},
        "3:1",
    ),
    RuleCase.quiet(
        "when an instance awaits several calls",
        {
            "models/bls/config.pbtxt": _BLS,
            "models/bls/1/model.py": "async def execute(self, requests):\n    await request.async_exec()\n",
            "models/llm/config.pbtxt": _ENGINE,
        },
    ),
    RuleCase.quiet(
        "when the model has as many instances",
        {"models/bls/config.pbtxt": _BLS.replace("4", "64"), "models/llm/config.pbtxt": _ENGINE},
    ),
    RuleCase.quiet(
        "when the engine's batch is a template",
        {"models/bls/config.pbtxt": _BLS, "models/llm/config.pbtxt": _ENGINE.replace("64", "${most}")},
    ),
)
