"""Several small models each use a separate GPU.

## Looks for
Models list GPUs (`instance_group.gpus`) without overlap. The settings give `gpu_memory`, and all files together fill
less than half of one GPU.

## Means
Each GPU runs one small model and otherwise idles, while requests of the busiest model wait.

## Do
Pack them: list all GPUs for each model, or no GPU, which means all. Watch `gpu-contended-by-colocated-model` after the
change.

## Sources
Triton user guide, "Instance Groups" and "Concurrent Model Execution".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.instances import gpus_of
from diagnostics.lint.model_folder import ModelFolder, weight_bytes
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.units import Limit, Unit

FILLS_LITTLE = Limit(
    value=0.5,
    unit=Unit.RATIO,
    because="what loads from a file about doubles with activations and libraries; the other half is for them",
)
RULE = Rule(
    scope=RuleScope.REPOSITORY,
    severity=LintSeverity.INFO,
    question=LintTopic.PACKING,
    limits={"share_of_one_gpu": FILLS_LITTLE},
)


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report the first of the models that are apart without need."""
    memory = view.settings.gpu_memory_bytes
    listed = {name: gpus for name, model in view.repository.models.items() if (gpus := gpus_of(model))}
    models = [view.repository.models[name] for name in listed]
    if not memory or len(models) < 2 or not _apart(list(listed.values())):
        return
    sizes = [weight_bytes(model) for model in models]
    if all(sizes) and sum(sizes) < memory * FILLS_LITTLE.value:
        yield view.problem(
            f"{_names(models)} hold {len(set().union(*listed.values()))} GPUs; together their files have"
            f" {Unit.BYTES.show(sum(sizes))}",
            at=models[0].place,
            help="pack them on the same GPUs, and compare",
        )


def _apart(gpus: list[frozenset[int]]) -> bool:
    return sum(map(len, gpus)) == len(frozenset().union(*gpus))


def _names(models: list[ModelFolder]) -> str:
    return ", ".join(model.name for model in models)


def _model(name: str, gpu: int) -> dict[str, str | bytes]:
    return {
        f"models/{name}/config.pbtxt": f'backend: "onnxruntime"\ninstance_group {{ gpus: [ {gpu} ] }}\n',
        f"models/{name}/1/model.onnx": b"x" * 100,
    }


_MEMORY = LintSettings(gpu_memory_bytes=1000)
CASES = (
    RuleCase.fires(
        "when two small models hold a GPU each",
        {**_model("a", 0), **_model("b", 1)},
        "models/a/config.pbtxt:1:1",
        settings=_MEMORY,
    ),
    RuleCase.quiet("when the models share a GPU", {**_model("a", 0), **_model("b", 0)}, settings=_MEMORY),
    RuleCase.quiet(
        "when the models would fill a GPU",
        {**_model("a", 0), **_model("b", 1)},
        settings=LintSettings(gpu_memory_bytes=300),
    ),
)
