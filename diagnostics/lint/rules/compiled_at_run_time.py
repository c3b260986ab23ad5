"""A model is compiled while it serves, again after each start.

## Looks for
ONNX Runtime's TensorRT accelerator without an engine cache (`trt_engine_cache_enable`), or `torch.compile` in a Python
model.

## Means
The accelerator builds an engine at load, and again for each shape outside the range it was built for. Each build takes
seconds to minutes, and requests of the instance wait. `torch.compile` does the same in the model's process.

## Do
Compile only the stable, busy model. Turn on the cache, and give profile ranges that cover served shapes
(`trt_profile_min_shapes`, …). Or build the engine beforehand. Use the plain runtime for models that change often or
serve many shapes. Warm up each shape.

## Sources
onnxruntime_backend, README ("TensorRT Optimization"). server#3473 (a first request of a minute despite a warm-up).
PyTorch, "torch.compile" (recompilation).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.engines import code_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.COMPILED)

_CACHE = "trt_engine_cache_enable"
_COMPILE = "torch.compile("


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report accelerators without a cache, and code that compiles."""
    optimization = view.config.block("optimization")
    accelerators = optimization.block("execution_accelerators") if optimization else None
    for accelerator in accelerators.blocks("gpu_execution_accelerator") if accelerators else ():
        if accelerator.text("name") == "tensorrt" and view.model.backend == "onnxruntime" and not _cached(accelerator):
            yield view.problem(
                "the TensorRT accelerator builds engines anew at each start, and for each new shape while it serves",
                at=accelerator.place,
                help=f"set the parameter {_CACHE} to true, with trt_engine_cache_path on a volume that stays",
            )
    yield from _compiles(view)


def _cached(accelerator: ConfigMessage) -> bool:
    text = accelerator.map("parameters").get(_CACHE)
    return not accelerator.complete or (text is not None and text.value in (None, "true", "True", "1"))


def _compiles(view: ConfiguredModelView) -> Iterator[LintProblem]:
    if view.config.has("model_warmup") is not False:
        return
    for file in code_of(view.model):
        at = file.text.find(_COMPILE)
        if at >= 0 and "#" not in file.text[file.text.rfind("\n", 0, at) + 1 : at]:
            yield view.problem(
                "torch.compile compiles when a shape is first served, and there is no model_warmup",
                at=file.place(at),
                help="warm up each shape that is served",
                severity=LintSeverity.INFO,
            )


def _model(parameters: str) -> dict[str, str]:
    accelerator = f'gpu_execution_accelerator: [ {{ name: "tensorrt" {parameters} }} ]'
    text = f'backend: "onnxruntime"\noptimization {{ execution_accelerators {{ {accelerator} }} }}\n'
    return {"models/a/config.pbtxt": text}


_PYTHON = 'backend: "python"\n'
CASES = (
    RuleCase.fires(
        "when the accelerator has no cache", _model('parameters { key: "precision_mode" value: "FP16" }'), "2:70"
    ),
    RuleCase.fires(
        "when a Python model compiles unwarmed",
        {"models/a/config.pbtxt": _PYTHON, "models/a/1/model.py": "import torch\nm = torch.compile(m)\n"},
        "models/a/1/model.py:2:5",
    ),
    RuleCase.quiet("when there is a cache", _model('parameters { key: "trt_engine_cache_enable" value: "true" }')),
    RuleCase.quiet(
        "when a template may turn it on, and when compiling is a comment",
        {
            **_model('parameters { key: "trt_engine_cache_enable" value: "${cache}" }'),
            "models/b/config.pbtxt": _PYTHON,
            "models/b/1/model.py": "# m = torch.compile(m)\n",
        },
    ),
)
