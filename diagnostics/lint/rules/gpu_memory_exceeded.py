"""The models of one GPU need more memory than it has.

## Looks for
`gpu_memory` in the settings is compared with the sizes of served model files on each GPU. ONNX Runtime and PyTorch load
the weights once per instance, TensorRT once per model. Unknown sizes (other backends, activations, caches) are left
out, so the true need is higher.

## Means
The last model to load fails for lack of memory, or all fail under load.

## Do
Lower `instance_group.count`, or spread the models by `instance_group.gpus`.

## Sources
server#6928 (each instance loads its own weights, by design). tensorrt_backend: instances are contexts of one engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from diagnostics.lint.engines import parameter
from diagnostics.lint.instances import groups
from diagnostics.lint.model_folder import ModelFolder, weight_bytes
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.settings import LintSettings
from diagnostics.units import Unit

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.ERROR, question=LintTopic.PACKING)

_SHARED = "tensorrt"
_EVERY = -1


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report the model that fills the fullest GPU most."""
    memory = view.settings.gpu_memory_bytes
    if not memory:
        return
    needs = {name: _needs(model) for name, model in view.repository.models.items()}
    gpus = {gpu for need in needs.values() for gpu in need} - {_EVERY}
    for gpu in sorted(gpus) or [_EVERY]:
        on_it = {name: need.get(gpu, 0) + (need.get(_EVERY, 0) if gpu != _EVERY else 0) for name, need in needs.items()}
        total = sum(on_it.values())
        if total > memory:
            most = max(on_it, key=lambda name: on_it[name])
            which = "each GPU" if gpu == _EVERY else f"GPU {gpu}"
            yield view.problem(
                f"model files of {Unit.BYTES.show(total)} are loaded on {which}, which has {Unit.BYTES.show(memory)};"
                f" {most} alone {Unit.BYTES.show(on_it[most])}",
                at=view.repository.models[most].place,
                help="lower its count, or spread models over GPUs",
            )
            return


def _needs(model: ModelFolder) -> Mapping[int, int]:
    """Return the least bytes that a model takes on each GPU that it names; on every GPU as that of number -1."""
    size = weight_bytes(model)
    shared = model.backend == _SHARED or parameter(model, "ENABLE_WEIGHT_SHARING") == "true"
    found: dict[int, int] = {}
    listed = groups(model)
    if not size or listed is None:
        return {}
    if not listed:
        return {_EVERY: size}
    for group in listed:
        if group.kind in ("KIND_GPU", "KIND_AUTO") and group.count and group.gpus is not None:
            for gpu in group.gpus or (_EVERY,):
                found[gpu] = size if shared else found.get(gpu, 0) + size * group.count
    return found


def _model(group: str, file: str = "model.onnx", backend: str = "onnxruntime") -> dict[str, str | bytes]:
    return {
        "models/a/config.pbtxt": f'backend: "{backend}"\ninstance_group {{ {group} }}\n',
        f"models/a/1/{file}": b"x" * 600,
    }


_SMALL = LintSettings(gpu_memory_bytes=1000)
CASES = (
    RuleCase.fires(
        "when two instances do not fit", _model("count: 2 kind: KIND_GPU"), "models/a/config.pbtxt:1:1", settings=_SMALL
    ),
    RuleCase.quiet("when instances share the weights", _model("count: 2", "model.plan", "tensorrt"), settings=_SMALL),
    RuleCase.quiet("when each instance has its own GPU", _model("count: 1 gpus: [ 0, 1 ]"), settings=_SMALL),
    RuleCase.quiet("without `gpu_memory` in the settings", _model("count: 2 kind: KIND_GPU")),
)
