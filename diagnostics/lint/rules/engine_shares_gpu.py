"""An engine that takes almost all memory of its GPUs shares them with other models.

## Looks for
An engine shares GPUs with models of other backends, as far as the files show. Its KV cache takes 0.9 (the default) or
more of the free memory, or there are several engines.

## Means
The engine takes its share of what is free when it loads. Models that load later get only the rest, and growth later
fails for lack of memory. Executions of both also take turns on the GPU, so each token waits for the other models.

## Do
Give the engine its own GPUs (`gpu_device_ids`), and pack small models on others (`instance_group.gpus`). Or lower
`kv_cache_free_gpu_mem_fraction` (vLLM: `gpu_memory_utilization`) by what the others need.

## Sources
tensorrtllm_backend, `model_config.md` (the fraction is of what is free after the engine has loaded). vLLM, "Engine
Arguments".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, takewhile

from diagnostics.lint.engines import (
    DEFAULT_KV_FRACTION,
    VLLM,
    engine_gpus,
    is_engine,
    is_tensorrt_llm,
    number,
    parameters,
    unset,
    vllm_settings,
)
from diagnostics.lint.instances import gpus_of, may_run_on_gpu
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.units import Limit, Unit

ALMOST_ALL = Limit(
    value=DEFAULT_KV_FRACTION,
    unit=Unit.RATIO,
    because="the backends' default, made for an engine that is alone on its GPU",
)
RULE = Rule(
    scope=RuleScope.REPOSITORY,
    severity=LintSeverity.WARNING,
    question=LintTopic.PACKING,
    limits={"share_of_free_memory": ALMOST_ALL},
)

_FRACTION = "kv_cache_free_gpu_mem_fraction"
_EVERY = -1
_SHOWN = 3


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each engine that has neighbours."""
    models = view.repository.models.values()
    engines = [model for model in models if (is_tensorrt_llm(model) or model.backend == VLLM) and model.config]
    if not engines:
        return
    others = [model for model in models if may_run_on_gpu(model) and is_engine(model) is False]
    by_gpu = _by_gpu((*engines, *others))
    for engine in engines:
        share, beside = _share(engine), _beside(engine, by_gpu)
        if share is not None and share >= ALMOST_ALL.value and beside:
            yield _problem(view, engine, share, beside)


def _by_gpu(models: Iterable[ModelFolder]) -> Mapping[int, list[str]]:
    """Return the names of models by GPU; those that may run on every GPU as those of number -1."""
    found: dict[int, list[str]] = {_EVERY: []}
    for model in models:
        for gpu in _gpus(model) or (_EVERY,):
            found.setdefault(gpu, []).append(model.name)
    return found


def _beside(engine: ModelFolder, by_gpu: Mapping[int, list[str]]) -> list[str]:
    """Return names of models that may run on an engine's GPUs, as many as are shown and one more."""
    gpus = _gpus(engine)
    lists = [by_gpu[_EVERY], *(names for gpu, names in by_gpu.items() if gpus is None or gpu in gpus)]
    found: dict[str, None] = {}
    for name in takewhile(lambda _: len(found) <= _SHOWN, chain(*lists)):
        if name != engine.name:
            found[name] = None
    return list(found)


def _problem(view: RepositoryView, engine: ModelFolder, share: float, beside: list[str]) -> LintProblem:
    text = parameters(engine).get(_FRACTION)
    return view.problem(
        f"{engine.name} takes {Unit.RATIO.show(share)} of the free GPU memory, beside {', '.join(beside[:_SHOWN])}"
        + (" and more" if len(beside) > _SHOWN else ""),
        at=text.place if text and text.written else engine.place,
        help="give it GPUs of its own, or a smaller share",
    )


def _share(engine: ModelFolder) -> float | None:
    """Return the share of the free memory that an engine takes; None when it is unknown."""
    if engine.backend == VLLM:
        share = vllm_settings(engine).get("gpu_memory_utilization", ALMOST_ALL.value)
        return float(share) if isinstance(share, int | float) and vllm_settings(engine) else None
    if unset(engine, "max_tokens_in_paged_kv_cache"):
        return ALMOST_ALL.value if unset(engine, _FRACTION) else number(engine, _FRACTION)
    return None


def _gpus(model: ModelFolder) -> frozenset[int] | None:
    """Return the GPUs that a model is given; None for every GPU, or unknown."""
    listed = frozenset(gpu for one in engine_gpus(model) for gpu in one)
    return listed or (None if is_tensorrt_llm(model) else gpus_of(model))


def _engine(more: str = "") -> dict[str, str]:
    return {"models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\n{more}'}


def _other(group: str) -> dict[str, str]:
    return {"models/safety/config.pbtxt": f'backend: "onnxruntime"\ninstance_group {{ {group} }}\n'}


def _parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


CASES = (
    RuleCase.fires(
        "when another model may run on its GPU",
        {**_engine(), **_other("kind: KIND_GPU")},
        "models/llm/config.pbtxt:1:1",
    ),
    RuleCase.fires(
        "when both name the same GPU",
        {
            **_engine(_parameter(_FRACTION, "0.95") + _parameter("gpu_device_ids", "0,1")),
            **_other("gpus: [ 1 ]"),
        },
        "models/llm/config.pbtxt:3:74",
    ),
    RuleCase.quiet(
        "when engine and models have separate GPUs",
        {**_engine(_parameter("gpu_device_ids", "0,1")), **_other("gpus: [ 2 ]")},
    ),
    RuleCase.quiet(
        "when the engine takes less, or a template decides",
        {**_engine(_parameter(_FRACTION, "0.5")), **_other("kind: KIND_GPU")},
    ),
    RuleCase.quiet("when the other models run on the CPU", {**_engine(), **_other("kind: KIND_CPU")}),
)
