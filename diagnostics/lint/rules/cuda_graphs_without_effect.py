"""CUDA graphs are turned on where they have no effect.

## Looks for
`optimization.cuda` with `graphs`, for a backend other than TensorRT; `cuda_graph_mode` of the TensorRT-LLM backend
without a `cuda_graph_cache_size` above 0.

## Means
Only the TensorRT backend reads `optimization.cuda.graphs`. The TensorRT-LLM backend keeps `cuda_graph_cache_size`
graphs. The default is 0, so a graph is captured and discarded.

## Do
Remove the setting. For an engine, set `cuda_graph_cache_size` to the number of batch sizes that decoding uses.

## Sources
`model_config.proto` (`ModelOptimizationPolicy.Cuda`). tensorrtllm_backend, `model_config.md` (`cuda_graph_cache_size`,
0 by default).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import flag, is_tensorrt_llm, number, parameters, unset
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report graphs that nobody captures, or keeps."""
    optimization = view.config.block("optimization")
    cuda = optimization.block("cuda") if optimization else None
    if cuda is not None and cuda.flag("graphs") and view.model.backend not in ("tensorrt", None):
        message = f"the {view.model.backend} backend captures no CUDA graphs: the setting does nothing"
        yield view.problem(message, at=cuda.at("graphs"), help="remove it")
    if is_tensorrt_llm(view.model) and flag(view.model, "cuda_graph_mode"):
        kept = 0 if unset(view.model, "cuda_graph_cache_size") else number(view.model, "cuda_graph_cache_size")
        if kept == 0:
            yield view.problem(
                "CUDA graphs are on, but none is kept: cuda_graph_cache_size is 0",
                at=parameters(view.model)["cuda_graph_mode"].place,
                help="set it to the number of batch sizes that decoding meets",
            )


def _graphs(backend: str) -> dict[str, str]:
    return {"models/a/config.pbtxt": f'backend: "{backend}"\noptimization {{ cuda {{ graphs: true }} }}\n'}


def _engine(size: str) -> dict[str, str]:
    lines = [("cuda_graph_mode", "true"), ("cuda_graph_cache_size", size)]
    text = "".join(f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in lines)
    return {"models/llm/config.pbtxt": f'backend: "tensorrtllm"\n{text}'}


CASES = (
    RuleCase.fires("when the backend captures no graph", _graphs("onnxruntime"), "2:23"),
    RuleCase.fires("when the engine keeps no graph", _engine("0"), "2:59"),
    RuleCase.quiet("when graphs are kept or captured", {**_engine("16"), **_graphs("tensorrt")}),
    RuleCase.quiet("when a template says how many", _engine("${size}")),
)
