"""An engine's ranks do not match its GPUs, or it uses more GPUs than it needs.

## Looks for
`mapping` in the engine's `config.json` (`world_size`, or tensor × pipeline) is compared with the lists of
`gpu_device_ids`. If the settings give `gpu_memory`, also engines on several GPUs that would fill less than half of one.

## Means
An engine runs one rank on each GPU of its list. With another number of GPUs, it does not load. The vLLM backend refuses
to spread an instance of KIND_GPU, which has one GPU. Each layer of a model split over GPUs ends in communication. A
small model is slower on two GPUs than on one.

## Do
List as many GPUs as the engine has ranks. Build a small model for one GPU, and use the other GPUs for more instances.

## Sources
tensorrtllm_backend, `model_config.md` (`gpu_device_ids`); vllm_backend, `model.py`.
TensorRT-LLM#389 (8 GPUs took 115 s, one 9.3 s), vllm#6027.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from diagnostics import names
from diagnostics.lint.engines import (
    VLLM,
    BuiltEngine,
    engine_gpus,
    engine_of,
    is_tensorrt_llm,
    parallel,
    parameters,
    ranks_of,
    vllm_settings,
)
from diagnostics.lint.instances import groups
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.units import Limit, Unit

FILLS_LITTLE = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="weights that leave half of one GPU to the KV cache need no second GPU for their size",
)
RULE = Rule(
    scope=RuleScope.MODEL,
    severity=LintSeverity.ERROR,
    question=LintTopic.ENGINE,
    limits={"share_of_one_gpu": FILLS_LITTLE},
)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report lists that do not fit, and engines that are spread without need."""
    yield from _vllm(view)
    engine = engine_of(view.model) if is_tensorrt_llm(view.model) else None
    ranks = ranks_of(engine) if engine else None
    if engine is None or ranks is None:
        return
    for gpus in engine_gpus(view.model):
        if len(gpus) != ranks:
            yield view.problem(
                f"the engine has {ranks} ranks, but {len(gpus)} GPUs are listed for it ({engine.path})",
                at=parameters(view.model)["gpu_device_ids"].place,
            )
            break
    yield from _spread(view, engine, ranks)


def _vllm(view: ConfiguredModelView) -> Iterator[LintProblem]:
    ranks = parallel(vllm_settings(view.model)) if view.model.backend == VLLM else None
    for group in groups(view.model) or ():
        if ranks and ranks > 1 and group.kind == names.KIND_GPU:
            message = (
                f"model.json spreads the engine over {ranks} GPUs, but KIND_GPU gives an instance one: it does not load"
            )
            yield view.problem(message, at=group.block.at("kind"), help="use KIND_MODEL")


def _spread(view: ConfiguredModelView, engine: BuiltEngine, ranks: int) -> Iterator[LintProblem]:
    memory = view.settings.gpu_memory_bytes
    size = sum(path.stat().st_size for path in (view.model.path / Path(engine.path).parent).glob("rank*.engine"))
    if memory and size and ranks > 1 and size < memory * FILLS_LITTLE.value:
        yield view.problem(
            f"the engine is spread over {ranks} GPUs, but its {Unit.BYTES.show(size)} fit one of"
            f" {Unit.BYTES.show(memory)}",
            at=view.model.place,
            help="build it for one GPU, and compare",
            severity=LintSeverity.INFO,
        )


_TWO = '{"tp_size": 2, "pp_size": 1}'


def _files(gpus: str) -> dict[str, str | bytes]:
    parameter = f'parameters {{ key: "gpu_device_ids" value {{ string_value: "{gpus}" }} }}\n'
    return {
        "models/llm/config.pbtxt": f'backend: "tensorrtllm"\n{parameter}',
        "models/llm/1/config.json": f'{{"build_config": {{}}, "pretrained_config": {{"mapping": {_TWO}}}}}',
        "models/llm/1/rank0.engine": b"engine",
    }


def _vllm_files(kind: str) -> dict[str, str]:
    return {
        "models/a/config.pbtxt": f'backend: "vllm"\ninstance_group {{ kind: {kind} }}\n',
        "models/a/1/model.json": '{"model": "m", "tensor_parallel_size": 2}',
    }


CASES = (
    RuleCase.fires("when fewer GPUs are listed than there are ranks", _files("0;1"), "models/llm/config.pbtxt:2:58"),
    RuleCase.fires(
        "when a small engine is spread",
        _files("0,1"),
        "models/llm/config.pbtxt:1:1",
        settings=LintSettings(gpu_memory_bytes=80 * 2**30),
    ),
    RuleCase.fires(
        "when a vLLM engine is spread within one GPU", _vllm_files("KIND_GPU"), "models/a/config.pbtxt:2:18"
    ),
    RuleCase.quiet("when a vLLM engine chooses its GPUs", _vllm_files("KIND_MODEL")),
    RuleCase.quiet("when each instance has as many GPUs as ranks", _files("0,1;2,3")),
    RuleCase.quiet("about templates", _files("${gpus}")),
)
