"""Triton's limits and the engine's build limits differ.

## Looks for
`max_batch_size` of a TensorRT-LLM model is compared with `build_config.max_batch_size` in the engine's `config.json`.
`max_beam_width` is compared with the engine's, if that file can be read.

## Means
The engine never runs more requests at once than it was built for, so a larger `max_batch_size` has no effect. A smaller
one does not limit the engine, which fills its batch from its own queue. It only limits the batch of a single request. A
beam width above the engine's is refused when the model loads.

## Do
Set both to what the engine was built for. To change the engine's limits, rebuild it.

## Sources
tensorrtllm_backend, `model_config.md` (`triton_max_batch_size`). TensorRT-LLM, `trtllm-build` (`build_config`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import BuiltEngine, engine_of, is_tensorrt_llm, number, parameters
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report limits above what the engine was built for."""
    engine = engine_of(view.model) if is_tensorrt_llm(view.model) else None
    if engine is not None:
        yield from _batch(view, engine)
        yield from _beams(view, engine)


def _batch(view: ConfiguredModelView, engine: BuiltEngine) -> Iterator[LintProblem]:
    most, built = view.model.max_batch_size, engine.integer("build_config", "max_batch_size")
    if most and built and most > built:
        yield view.problem(
            f"max_batch_size is {most}, but the engine works on {built} requests at most ({engine.path})",
            at=view.config.at("max_batch_size"),
            help=f"set {built}, or build the engine with --max_batch_size {most}",
        )


def _beams(view: ConfiguredModelView, engine: BuiltEngine) -> Iterator[LintProblem]:
    beams, built = number(view.model, "max_beam_width"), engine.integer("build_config", "max_beam_width")
    if beams and built and beams > built:
        yield view.problem(
            f"max_beam_width is {int(beams)}, but the engine was built for {built} ({engine.path})",
            at=parameters(view.model)["max_beam_width"].place,
            severity=LintSeverity.ERROR,
        )


def _files(most: str, beams: str) -> dict[str, str]:
    beam = f'parameters {{ key: "max_beam_width" value {{ string_value: "{beams}" }} }}\n'
    return {
        "models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\nmax_batch_size: {most}\n{beam}',
        "models/llm/1/config.json": '{"build_config": {"max_batch_size": 64, "max_beam_width": 1}}',
    }


CASES = (
    RuleCase.fires(
        "when both limits are above the engine's",
        _files("128", "4"),
        "models/llm/config.pbtxt:3:1",
        "models/llm/config.pbtxt:4:58",
    ),
    RuleCase.quiet("when the limits are the engine's", _files("64", "1")),
    RuleCase.quiet("about templates", _files("${most}", "${beams}")),
    RuleCase.quiet(
        "when the engine cannot be read", {"models/llm/config.pbtxt": _files("128", "4")["models/llm/config.pbtxt"]}
    ),
)
