"""A model that batches on a GPU has no warm-up: first requests of each instance pay for initialisation.

## Looks for
A model with `max_batch_size` of 1 or more and instances on GPUs, without `model_warmup`. Engines of language models and
Python models are left out: the file does not show what their first execution costs.

## Means
The first execution of each instance at each new shape pays for lazy initialisation: CUDA modules, autotuning,
just-in-time compilation, caches. Users wait for it after each start, reload and scale-up.

## Do
Add `model_warmup` with a sample for each served batch size and shape. It runs on each instance before the version is
READY.

## Sources
Triton user guide, "Model warmup". server#3012 (the second request at a new batch size took 2.85 s).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.WARM)

# Frameworks that initialise at the first execution; the sources name each.
_LAZY = frozenset({"tensorrt", "onnxruntime", "pytorch", "tensorflow"})


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a model without a warm-up."""
    if view.model.backend not in _LAZY or view.config.has("model_warmup") is not False or not _on_gpu(view.model):
        return
    most = view.model.max_batch_size
    if not most:
        return
    sizes = tuple(sorted({1, most}))
    setting = Setting(path="model_warmup", value=WarmupChange(batch_sizes=sizes))
    yield view.problem(
        f"{view.model.name} has no model_warmup: the first requests of each instance wait for its initialisation",
        at=view.model.place,
        help=f"warm it up at batch sizes {' and '.join(map(str, sizes))}, with the shapes that are served",
        fix=ConfigChange(model=view.model.name, settings=(setting,)),
    )


def _on_gpu(model: ModelFolder) -> bool:
    groups = model.config.blocks("instance_group") if model.config else ()
    return not groups or any(group.text("kind", "KIND_AUTO") in ("KIND_AUTO", "KIND_GPU") for group in groups)


_COLD = """name: "safety"
backend: "onnxruntime"
max_batch_size: 8
input [ { name: "X" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "Y" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
_TENSOR = "value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true }"
_SAMPLE = f'model_warmup {{ name: "one" batch_size: 1 inputs {{ key: "X" {_TENSOR} }} }}\n'
CASES = (
    RuleCase.fires("when a model that batches has no warm-up", {"models/safety/config.pbtxt": _COLD}, "1:1"),
    RuleCase.quiet("with a warm-up", {"models/safety/config.pbtxt": _COLD + _SAMPLE}),
    RuleCase.quiet("about CPU models", {"models/safety/config.pbtxt": _COLD + "instance_group { kind: KIND_CPU }\n"}),
    RuleCase.quiet("when a template may become a warm-up", {"models/safety/config.pbtxt": _COLD + "${warm_up}\n"}),
)
