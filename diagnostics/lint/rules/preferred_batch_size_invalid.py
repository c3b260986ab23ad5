"""A preferred batch size is larger than the largest batch, or not positive.

## Looks for
A `preferred_batch_size` below 1 or above `max_batch_size`, which is 0 unless the file or backend sets it.

## Means
The server refuses the model at load: "dynamic batching preferred size must be <= max batch size".

## Do
Remove the size, or all of `preferred_batch_size`: without it, the batcher prefers the largest batch.

## Sources
Triton core, `model_config_utils.cc` (`ValidateModelConfig`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.BATCHING)

_FIELD = "preferred_batch_size"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report sizes that the server refuses."""
    batching, most = view.config.block("dynamic_batching"), view.model.max_batch_size
    sizes = batching.integers(_FIELD) if batching else None
    if batching is None or sizes is None or most is None:
        return
    wrong = [size for size in sizes if not 0 < size <= most]
    if wrong:
        kept = tuple(size for size in sizes if 0 < size <= most) or None
        yield view.problem(
            f"{_FIELD} {', '.join(map(str, wrong))} is not from 1 to max_batch_size, {most}: the model does not load",
            at=batching.at(_FIELD),
            help=f"remove it, or raise max_batch_size to {max(wrong)}" if max(wrong) > 0 else "remove it",
            fix=ConfigChange(model=view.model.name, settings=(Setting(path=f"dynamic_batching.{_FIELD}", value=kept),)),
        )


_MODEL = 'name: "a"\nbackend: "pytorch"\nmax_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 4, 16 ] }\n'
CASES = (
    RuleCase.fires("when a size is above the largest", _MODEL, "4:20"),
    RuleCase.quiet("when all sizes fit", _MODEL.replace("16", "8")),
    RuleCase.quiet(
        "when the maximum batch comes from the backend or a template",
        {
            "models/a/config.pbtxt": _MODEL.replace("8", "${most}"),
            "models/b/config.pbtxt": 'backend: "onnxruntime"\ndynamic_batching { preferred_batch_size: 16 }\n',
        },
    ),
)
