"""The model repository of a world of models."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.benchmark.deployment import write_engine
from tests.benchmark.kinds.world import Ensemble, Model, World

_MODELS = Path(__file__).parents[1] / "models"
_ENGINE_BATCH = 64


def write(world: World, into: Path, control: Path) -> Path:
    """Write the repository of a world and return it; what models read to misbehave is in the folder `control`."""
    into.mkdir(parents=True)
    control.mkdir(parents=True)
    for model in world.models:
        write_model(model, into, control)
    for ensemble in world.ensembles:
        write_ensemble(ensemble, world, into)
    if world.engine is not None:
        write_engine(world.engine, into)
    return into


def write_ensemble(ensemble: Ensemble, world: World, into: Path) -> None:
    """Write an ensemble's folder, or bring its configuration up to date."""
    (into / ensemble.name / "1").mkdir(parents=True, exist_ok=True)
    (into / ensemble.name / "config.pbtxt").write_text(_ensemble_config(ensemble, world), "utf-8")


def write_model(model: Model, into: Path, control: Path) -> None:
    """Write a model's folder, or bring its configuration up to date."""
    for version in model.versions:
        code = into / model.name / str(version) / "model.py"
        if not code.exists():
            code.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(_MODELS / ("odd_model.py" if model.oddities else "kind_model.py"), code)
            if model.oddities:
                shutil.copy(_MODELS / "kind_model.py", code.parent)
    (into / model.name / "config.pbtxt").write_text("".join(_config(model, control)), "utf-8")


def _config(model: Model, control: Path) -> Iterator[str]:
    yield f'name: "{model.name}"\nbackend: "python"\nmax_batch_size: {model.max_batch}\n'
    for name in ("IN", "IN2") if model.joins else ("IN",):
        yield _tensor("input", name, model.width)
    yield _tensor("output", "OUT", model.out_values or model.width)
    yield f"instance_group [ {{ count: {model.instances} kind: KIND_CPU{_limit(model)} }} ]\n"
    yield _scheduling(model)
    if model.cache:
        yield "response_cache { enable: true }\n"
    if model.parts:
        yield "model_transaction_policy { decoupled: true }\n"
    if len(model.versions) > 1:
        listed = ", ".join(map(str, model.versions))
        yield f"version_policy: {{ specific: {{ versions: [ {listed} ] }} }}\n"
    yield model.further
    for key, value in _parameters(model, control).items():
        yield f'parameters {{ key: "standin_{key}" value {{ string_value: "{value}" }} }}\n'


def _tensor(kind: str, name: str, width: int) -> str:
    return f'{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ {width} ] }} ]\n'


def _limit(model: Model) -> str:
    if not model.unit:
        return ""
    return f' rate_limiter {{ resources [ {{ name: "{model.unit}" global: true count: 1 }} ] priority: 1 }}'


def _scheduling(model: Model) -> str:
    if model.sequence_idle_ms:
        return f"sequence_batching {{ max_sequence_idle_microseconds: {model.sequence_idle_ms * 1000} direct {{ }} }}\n"
    limits = [f"max_queue_size: {model.queue_limit}"] if model.queue_limit else []
    if model.queue_timeout_ms:
        limits.append(f"timeout_action: REJECT default_timeout_microseconds: {model.queue_timeout_ms * 1000}")
    if model.delay_us is None and not limits and not model.priorities:
        return ""
    policy = f" default_queue_policy {{ {' '.join(limits)} }}" if limits else ""
    levels = " priority_levels: 2 default_priority_level: 2" if model.priorities else ""
    ordered = " preserve_ordering: true" if model.ordered else ""
    return f"dynamic_batching {{ max_queue_delay_microseconds: {model.delay_us or 0}{ordered}{levels}{policy} }}\n"


def _parameters(model: Model, control: Path) -> dict[str, object]:
    return {
        "base_ms": round(model.base_ms, 3),
        "per_item_ms": round(model.per_item_ms, 3),
        "jitter": model.jitter,
        "mode": model.mode,
        "first_ms": round(model.first_ms),
        "load_ms": round(model.load_ms),
        "broken": model.broken,
        "calls": ";".join(",".join(group) for group in model.calls),
        "traced": int(model.traced),
        "locked": model.locked,
        "lanes": model.lanes,
        "parts": model.parts,
        "version_ms": ";".join(f"{version}={ms:.3f}" for version, ms in model.version_ms.items()),
        "out_values": model.out_values,
        "control": control / f"{model.name}.json",
        **model.oddities,
    }


def _ensemble_config(ensemble: Ensemble, world: World) -> str:
    width = world.models[0].width
    known = {model.name: model for model in world.models}
    batch = min(known[s.model].max_batch if s.model in known else _ENGINE_BATCH for s in ensemble.steps)
    text = f'name: "{ensemble.name}"\nplatform: "ensemble"\nmax_batch_size: {batch}\n{_tensor("input", "IN", width)}'
    last = known.get(ensemble.steps[-1].model)
    outputs = {"OUT": (last.out_values if last else 0) or width}
    taken = {tensor for step in ensemble.steps for tensor in step.takes}
    outputs |= {step.gives: width for step in ensemble.steps if step.gives not in taken and step.gives != "OUT"}
    text += "".join(_tensor("output", name, size) for name, size in outputs.items())
    steps = []
    for step in ensemble.steps:
        inputs = " ".join(
            f'input_map {{ key: "{key}" value: "{tensor}" }}'
            for key, tensor in zip(("IN", "IN2"), step.takes, strict=False)
        )
        steps.append(
            f'{{ model_name: "{step.model}" model_version: -1 {inputs} '
            f'output_map {{ key: "OUT" value: "{step.gives}" }} }}'
        )
    return text + "ensemble_scheduling { step [\n  " + ",\n  ".join(steps) + "\n] }\n"
