"""A value is outside the range that the server accepts.

## Looks for
Any of these:
- A negative `max_batch_size` or GPU number.
- An explicit `count` of 0 or less.
- A `priority_queue_policy` for a level that does not exist.
- A `FORCE_CPU_ONLY_INPUT_TENSORS` of a Python model that is neither `yes` nor `no`.

## Means
The server refuses the model at load. A `count` of 0 means the default, one instance.

## Do
Use a number within the range.

## Sources
Triton core, `model_config_utils.cc` (`ValidateModelConfig`, `ValidateInstanceGroup`, `NormalizeInstanceGroup`);
python_backend, README (`FORCE_CPU_ONLY_INPUT_TENSORS`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.engines import parameters
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

_ON_PROCESSORS = "FORCE_CPU_ONLY_INPUT_TENSORS"
RULE = Rule(scope=RuleScope.ANY_MODEL, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each value."""
    most = view.config.integer("max_batch_size")
    if most is not None and most < 0:
        yield view.problem(f"max_batch_size may not be {most}", at=view.config.at("max_batch_size"))
    for group in view.config.blocks("instance_group"):
        if any(gpu < 0 for gpu in group.integers("gpus") or ()):
            yield view.problem("a GPU's number may not be negative", at=group.at("gpus"))
        count = group.integer("count", default=1)
        if count is not None and count < 1:
            message = f"a count of {count} stands for the default, one instance"
            yield view.problem(message, at=group.at("count"), severity=LintSeverity.WARNING)
    tensors = parameters(view.model).get(_ON_PROCESSORS) if view.model.backend == names.PYTHON_BACKEND else None
    if tensors is not None and tensors.value not in ("yes", "no", None):
        yield view.problem(f"{_ON_PROCESSORS} is yes or no: the model does not load", at=tensors.place)
    batching = view.config.block("dynamic_batching")
    if batching is not None:
        yield from _levels(view, batching)


def _levels(view: ConfiguredModelView, batching: ConfigMessage) -> Iterator[LintProblem]:
    levels = batching.integer("priority_levels")
    for entry in batching.blocks("priority_queue_policy") if levels else ():
        level = entry.integer("key")
        if levels and level is not None and not 1 <= level <= levels:
            yield view.problem(f"there is no priority {level}, but 1 to {levels}", at=entry.place)


def _model(more: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "python"\n{more}\n'}


CASES = (
    RuleCase.fires(
        "when a Python model's flag is another word",
        _model(f'parameters {{ key: "{_ON_PROCESSORS}" value {{ string_value: "maybe" }} }}'),
        "2:72",
    ),
    RuleCase.fires("when a batch is negative", _model("max_batch_size: -1"), "2:1"),
    RuleCase.fires(
        "when a GPU is negative, and a count is 0", _model("instance_group { gpus: [ -1 ] count: 0 }"), "2:18", "2:31"
    ),
    RuleCase.fires(
        "when a level does not exist",
        _model("dynamic_batching { priority_levels: 2 priority_queue_policy { key: 3 } }"),
        "2:61",
    ),
    RuleCase.quiet(
        "when all values are in range", _model("max_batch_size: 0\ninstance_group { gpus: [ 0 ] count: 1 }")
    ),
)
