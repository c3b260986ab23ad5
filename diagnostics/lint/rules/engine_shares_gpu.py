"""An engine that takes almost all memory of its GPUs has other models beside it.

## Looks for
An engine whose KV cache takes 0.9 or more of the free memory, the default, or several engines, and models of other
backends whose instances run on the same GPUs, as far as the files tell.

## Means
The engine takes its share of what is free when it loads: what loads later finds only the rest, and what grows later
fails for lack of memory. Executions of both also take turns on the GPU, so each token waits for the neighbours.

## Do
Large models alone, small ones packed: give the engine GPUs of its own (`gpu_device_ids`) and list others for the rest
(`instance_group.gpus`); or lower `kv_cache_free_gpu_mem_fraction` (vLLM: `gpu_memory_utilization`) by what they need.

## Sources
tensorrtllm_backend, `model_config.md` (the fraction is of what is free after the engine has loaded). vLLM, "Engine
Arguments".
"""

from __future__ import annotations

from collections.abc import Iterator

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
from diagnostics.lint.instances import gpus_of, may_run_on_gpu, share_a_gpu
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, Question, RepositoryView, Rule, Scope
from diagnostics.units import Limit, Unit

ALMOST_ALL = Limit(
    value=DEFAULT_KV_FRACTION,
    unit=Unit.RATIO,
    because="the backends' default, made for an engine that is alone on its GPU",
)
RULE = Rule(
    scope=Scope.REPOSITORY,
    severity=Severity.WARNING,
    question=Question.PACKING,
    limits={"share_of_free_memory": ALMOST_ALL},
)

_FRACTION = "kv_cache_free_gpu_mem_fraction"


def lint(see: RepositoryView) -> Iterator[Problem]:
    """Tell of each engine that has neighbours."""
    models = see.repository.models.values()
    engines = {model: _gpus(model) for model in models if _takes_a_share(model)}
    others = {model: gpus_of(model) for model in models if may_run_on_gpu(model) and is_engine(model) is False}
    placed = {**engines, **others}
    # By place, as many models are at few places.
    beside = {gpus: [one for one in placed if share_a_gpu(gpus, placed[one])] for gpus in set(engines.values())}
    for engine, gpus in engines.items():
        share, neighbours = _share(engine), beside[gpus]
        if share is not None and share >= ALMOST_ALL.value and len(neighbours) > 1:
            yield _problem(see, engine, share, neighbours)


def _takes_a_share(model: ModelFolder) -> bool:
    return model.config is not None and (is_tensorrt_llm(model) or model.backend == VLLM)


def _problem(see: RepositoryView, engine: ModelFolder, share: float, neighbours: list[ModelFolder]) -> Problem:
    text, first = parameters(engine).get(_FRACTION), [one.name for one in neighbours[:4] if one is not engine][:3]
    more = len(neighbours) - 1 - len(first)
    return see.problem(
        f"{engine.name} takes {Unit.RATIO.show(share)} of the free GPU memory, beside {', '.join(first)}"
        + (f" and {more} more" if more else ""),
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


def _gpus(engine: ModelFolder) -> frozenset[int] | None:
    listed = frozenset(gpu for one in engine_gpus(engine) for gpu in one)
    return listed or (gpus_of(engine) if engine.backend == VLLM else None)


def _engine(more: str = "") -> dict[str, str]:
    return {"models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\n{more}'}


def _beside(group: str) -> dict[str, str]:
    return {"models/safety/config.pbtxt": f'backend: "onnxruntime"\ninstance_group {{ {group} }}\n'}


def _parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'


CASES = (
    Case(
        title="speaks when another model may run on its GPU",
        files={**_engine(), **_beside("kind: KIND_GPU")},
        places=("models/llm/config.pbtxt:1:1",),
    ),
    Case(
        title="speaks when both name the same GPU",
        files={
            **_engine(_parameter(_FRACTION, "0.95") + _parameter("gpu_device_ids", "0,1")),
            **_beside("gpus: [ 1 ]"),
        },
        places=("models/llm/config.pbtxt:3:74",),
    ),
    Case(
        title="is silent when they have GPUs of their own",
        files={**_engine(_parameter("gpu_device_ids", "0,1")), **_beside("gpus: [ 2 ]")},
    ),
    Case(
        title="is silent when it takes less, or a template says how much",
        files={**_engine(_parameter(_FRACTION, "0.5")), **_beside("kind: KIND_GPU")},
    ),
    Case(
        title="is silent when the others run on processors",
        files={**_engine(), **_beside("kind: KIND_CPU")},
    ),
)
