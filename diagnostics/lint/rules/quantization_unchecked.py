"""An engine is quantized, and no file next to it shows that its answers were checked.

## Looks for
The engine's `config.json` has `quant_algo` or `kv_cache_quant_algo`. No file whose name begins with `accuracy` or
`eval` is with the engine, the model or its versions.

## Means
FP8, INT8, INT4 and FP4 change the numbers that an engine computes. The loss in its answers depends on the model, the
calibration data and the questions. No metric of the server shows it.

## Do
Evaluate the quantized engine against the original on your own task. Keep the result with the engine, as `accuracy.json`
or `accuracy.md`. If the record is kept elsewhere, waive this and name the place.

## Sources
TensorRT-LLM, "Numerical Precision" and `config.json` (`pretrained_config.quantization`).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diagnostics.lint.engines import BuiltEngine, engine_of, is_tensorrt_llm
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)

_RECORDS = ("accuracy", "eval")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report a quantized engine without a record."""
    engine = engine_of(view.model) if is_tensorrt_llm(view.model) else None
    algorithms = _algorithms(engine) if engine else []
    if engine is not None and algorithms and not _recorded(view, engine):
        yield view.problem(
            f"the engine computes in {' and '.join(algorithms)}, and no accuracy check is recorded with it",
            at=view.model.place,
            help="keep the evaluation of this engine with it, as accuracy.json",
        )


def _algorithms(engine: BuiltEngine) -> list[str]:
    keys = ("quant_algo", "kv_cache_quant_algo")
    found = [engine.value("pretrained_config", "quantization", key) for key in keys]
    return sorted(
        {value for value in found if isinstance(value, str) and value.upper() not in ("", "NONE", "NO_QUANT")}
    )


def _recorded(view: ConfiguredModelView, engine: BuiltEngine) -> bool:
    names = [
        *view.model.entries,
        *(name for version in view.model.versions for name in view.model.version_files(version)),
    ]
    folder = view.model.path / Path(engine.path).parent
    names += [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return any(name.lower().startswith(_RECORDS) for name in names)


def _files(algorithm: str) -> dict[str, str]:
    quantization = f'"quantization": {{"quant_algo": {algorithm}}}'
    return {
        "models/llm/config.pbtxt": 'backend: "tensorrtllm"\n',
        "models/llm/1/config.json": f'{{"build_config": {{}}, "pretrained_config": {{{quantization}}}}}',
    }


CASES = (
    RuleCase.fires("when an FP8 engine has no record", _files('"FP8"'), "models/llm/config.pbtxt:1:1"),
    RuleCase.quiet("when a record exists", {**_files('"FP8"'), "models/llm/1/accuracy.json": "{}"}),
    RuleCase.quiet("when nothing is quantized", _files("null")),
)
