"""A drawn deployment, and the model repository that it becomes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from diagnostics.demo.environment import reference_root

_MODELS = Path(__file__).parent / "models"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage. Times in milliseconds; `delay_us` None means no dynamic batching.

    Attributes:
        priorities: it has two levels, of which the second is what a request has that names none.
        sequence_idle_ms: above 0 it serves sequences, and one that is idle for so long loses its slot.
        broken: why it cannot be loaded; empty for a stage that can.
        hang_after: executions after which an instance never comes back from one; 0 for none.
        mode: `sleep`, `cpu`, `gpu`, or `work`, which is processor time of its own.
        gpus: the cards that instances are on, each with as many as `instances` says.
        gpu_product_us: what a product of matrices takes, as stated; 0 measures it when the model is loaded.
        preferred: preferred batch sizes of the dynamic batcher.
    """

    name: str
    base_ms: float
    per_item_ms: float = 0.0
    jitter: float = 0.05
    instances: int = 1
    max_batch: int = 1
    delay_us: int | None = None
    queue_limit: int = 0
    queue_timeout_ms: int = 0
    priorities: bool = False
    sequence_idle_ms: int = 0
    first_ms: float = 0.0
    load_ms: float = 0.0
    broken: str = ""
    fail_every: int = 0
    fail_mode: str = "error"
    hang_after: int = 0
    mode: str = "sleep"
    gpus: tuple[int, ...] = (0,)
    gpu_size: int = 0
    gpu_product_us: float = 0.0
    preferred: tuple[int, ...] = ()

    def seconds(self, items: float = 1.0) -> float:
        """Return the time of an execution of `items` items."""
        return (self.base_ms + self.per_item_ms * items) / 1e3


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """The engine stand-in.

    Attributes:
        static: it begins a batch only when the one before it has ended.
        gpu_product_us: above 0 its iterations multiply matrices on a card, and a product takes so long, as stated.
    """

    name: str
    slots: int = 32
    kv_tokens: int = 65536
    decode_ms: float = 3.8
    prompt: int = 48
    static: bool = False
    gpu_size: int = 0
    gpu_product_us: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """An ensemble of stages in order, one of which may be followed by the engine.

    Attributes:
        ensemble: its name.
        stages: the stages, in order.
        engine: the engine, after stage `engine_after`; None for an ensemble without one.
        engine_after: position of the stage before the engine.
        side: position of a stage that runs beside its successor, both fed by its predecessor; None for a chain.
        callers: above 0, a model with so many instances takes the ensemble's place and calls the stages itself.
        width: numbers in a row of a tensor; −1 for any.
    """

    ensemble: str
    stages: tuple[StageSpec, ...]
    engine: EngineSpec | None = None
    engine_after: int = 0
    side: int | None = None
    callers: int = 0
    width: int = 4

    def changed(self, stage: str, **values: object) -> Deployment:
        """Return the deployment with other settings of one stage."""
        stages = tuple(replace(s, **values) if s.name == stage else s for s in self.stages)  # type: ignore[arg-type]
        return replace(self, stages=stages)

    def stage(self, name: str) -> StageSpec:
        """Return a stage by name."""
        return next(stage for stage in self.stages if stage.name == name)


def write(deployment: Deployment, into: Path) -> Path:
    """Write the model repository of a deployment and return it."""
    common = reference_root() / "common"
    for name, config in configs(deployment).items():
        _folder(into, name, config)
    for spec in deployment.stages:
        shutil.copy(_MODELS / "stage_model.py", into / spec.name / "1/model.py")
        shutil.copy(_MODELS / "own.py", into / spec.name / "1/own.py")
        shutil.copy(common / "stage.py", into / spec.name / "1/stage.py")
    if deployment.engine is not None:
        _engine_code(deployment.engine, into)
    if deployment.callers:
        shutil.copy(_MODELS / "caller_model.py", into / deployment.ensemble / "1/model.py")
    return into


def write_engine(spec: EngineSpec, into: Path) -> None:
    """Write the folder of an engine."""
    _folder(into, spec.name, _engine_config(spec))
    _engine_code(spec, into)


def _engine_code(spec: EngineSpec, into: Path) -> None:
    folder, standin = into / spec.name / "1", reference_root() / "model_repository/tensorrt_llm/1"
    shutil.copy(standin / "model.py", folder / "standin.py")
    for name in ("batcher.py", "gauges.py"):
        shutil.copy(standin / name, folder / name)
    shutil.copy(reference_root() / "common/stage.py", folder)
    shutil.copy(_MODELS / "own.py", folder)
    shutil.copy(_MODELS / "engine_model.py", folder / "model.py")


def configs(deployment: Deployment) -> dict[str, str]:
    """Return the text of each model's `config.pbtxt`, the ensemble's last."""
    texts = {spec.name: _stage_config(spec, deployment.width) for spec in deployment.stages}
    if deployment.engine is not None:
        texts[deployment.engine.name] = _engine_config(deployment.engine)
    calls = _caller_config if deployment.callers else _ensemble_config
    return {**texts, deployment.ensemble: calls(deployment)}


def release(deployment: Deployment, repository: Path, spec: StageSpec) -> None:
    """Put version 2 of a stage beside version 1, with the settings of `spec`."""
    model = repository / spec.name
    shutil.copytree(model / "1", model / "2", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    (model / "config.pbtxt").write_text(_stage_config(spec, deployment.width), "utf-8")


def _folder(into: Path, name: str, config: str) -> None:
    (into / name / "1").mkdir(parents=True)
    (into / name / "config.pbtxt").write_text(config, "utf-8")


def _tensor(kind: str, name: str, width: int) -> str:
    return f'{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ] }} ]\n'


def _tensors(max_batch: int, width: int) -> str:
    return f"max_batch_size: {max_batch}\n{_tensor('input', 'IN', width)}{_tensor('output', 'OUT', width)}"


def _parameters(values: Mapping[str, object]) -> str:
    return "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in values.items()
    )


def _stage_config(spec: StageSpec, width: int) -> str:
    text = f'name: "{spec.name}"\nbackend: "python"\n{_tensors(spec.max_batch, width)}'
    kind = f"KIND_GPU gpus: [ {', '.join(map(str, spec.gpus))} ]" if spec.mode == "gpu" else "KIND_CPU"
    text += f"instance_group [ {{ count: {spec.instances} kind: {kind} }} ]\n{_scheduling(spec)}"
    values: dict[str, object] = {
        "service_base_ms": round(spec.base_ms, 3),
        "service_per_item_ms": round(spec.per_item_ms, 3),
        "service_jitter": spec.jitter,
        "service_mode": spec.mode,
        "first_execution_ms": spec.first_ms,
        "fail_every": spec.fail_every,
        "fail_mode": spec.fail_mode,
        "gpu_size": spec.gpu_size or 1024,
        **({"gpu_product_us": spec.gpu_product_us} if spec.gpu_product_us else {}),
        "standin_load_ms": round(spec.load_ms),
        "standin_broken": spec.broken,
        "standin_hang_after": spec.hang_after,
    }
    return text + _parameters(values)


def _scheduling(spec: StageSpec) -> str:
    if spec.sequence_idle_ms:
        return f"sequence_batching {{ max_sequence_idle_microseconds: {spec.sequence_idle_ms * 1000} direct {{ }} }}\n"
    limits = [f"max_queue_size: {spec.queue_limit}"] if spec.queue_limit else []
    if spec.queue_timeout_ms:
        limits.append(f"timeout_action: REJECT default_timeout_microseconds: {spec.queue_timeout_ms * 1000}")
    if spec.delay_us is None and not limits and not spec.priorities:
        return ""
    preferred = f" preferred_batch_size: [ {', '.join(map(str, spec.preferred))} ]" if spec.preferred else ""
    policy = f" default_queue_policy {{ {' '.join(limits)} }}" if limits else ""
    levels = " priority_levels: 2 default_priority_level: 2" if spec.priorities else ""
    return f"dynamic_batching {{ max_queue_delay_microseconds: {spec.delay_us or 0}{preferred}{levels}{policy} }}\n"


def _caller_config(deployment: Deployment) -> str:
    batch = min(stage.max_batch for stage in deployment.stages)
    text = f'name: "{deployment.ensemble}"\nbackend: "python"\n{_tensors(batch, deployment.width)}'
    text += f"instance_group [ {{ count: {deployment.callers} kind: KIND_CPU }} ]\n"
    return text + _parameters({"standin_calls": ",".join(_order(deployment))})


def _engine_config(spec: EngineSpec) -> str:
    text = f'name: "{spec.name}"\nbackend: "python"\n{_tensors(64, 4)}'
    computes = {"gpu_size": spec.gpu_size, "gpu_product_us": spec.gpu_product_us} if spec.gpu_product_us else {}
    text += f"instance_group [ {{ count: 1 kind: {'KIND_GPU gpus: [ 0 ]' if computes else 'KIND_CPU'} }} ]\n"
    values: dict[str, object] = {
        **computes,
        "gpt_model_type": "V1" if spec.static else "inflight_fused_batching",
        "batch_scheduler_policy": "guaranteed_no_evict",
        "max_tokens_in_paged_kv_cache": spec.kv_tokens,
        "stats_check_period_ms": 100,
        "standin_engine_max_batch_size": spec.slots,
        "standin_tokens_per_block": 32,
        "standin_prompt_tokens": spec.prompt,
        "standin_prefill_base_ms": 5,
        "standin_prefill_per_token_ms": 0.05,
        "standin_decode_base_ms": spec.decode_ms,
        "standin_decode_per_request_ms": 0.1,
    }
    return text + _parameters(values)


@dataclass(slots=True)
class _Wiring:
    steps: list[str] = field(default_factory=list)
    tensors: int = 0

    def step(self, model: str, source: str, target: str) -> None:
        self.steps.append(
            f'{{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{source}" }} '
            f'output_map {{ key: "OUT" value: "{target}" }} }}'
        )

    def fresh(self) -> str:
        self.tensors += 1
        return f"t{self.tensors}"


def _ensemble_config(deployment: Deployment) -> str:
    wiring, order = _Wiring(), list(_order(deployment))
    source = "IN"
    for position, name in enumerate(order):
        last = position == len(order) - 1
        target = "OUT" if last else wiring.fresh()
        wiring.step(name, source, target)
        beside = deployment.side is not None and name == deployment.stages[deployment.side].name
        source = source if beside and not last else target
    batch = min(stage.max_batch for stage in deployment.stages)
    extra = _tensor("output", "OUT", deployment.width)
    head = f'name: "{deployment.ensemble}"\nplatform: "ensemble"\nmax_batch_size: {batch}\n'
    head += _tensor("input", "IN", deployment.width)
    if deployment.side is not None:
        aside = deployment.stages[deployment.side].name
        produced = next(s for s in wiring.steps if f'"{aside}"' in s).rsplit('value: "', 1)[1].split('"')[0]
        extra += _tensor("output", produced, deployment.width)
    return f"{head}{extra}ensemble_scheduling {{ step [\n  " + ",\n  ".join(wiring.steps) + "\n] }\n"


def _order(deployment: Deployment) -> Iterator[str]:
    for position, stage in enumerate(deployment.stages):
        yield stage.name
        if deployment.engine is not None and position == deployment.engine_after:
            yield deployment.engine.name
