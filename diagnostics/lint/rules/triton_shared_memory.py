"""Python models exchange tensors through shared memory, and a container has only 64 MB by default.

## Looks for
A compose service that runs Triton without `shm_size` or `ipc: host`, with Python models in the repository. Or a
Kubernetes container without a volume at `/dev/shm`.

## Means
Each instance of a Python model takes shared memory at its start, and more for larger tensors. If it runs out, models
fail to load, or requests fail with a backend error.

## Do
Set `shm_size: 1gb` or more (Kubernetes: an `emptyDir` with `medium: Memory` at `/dev/shm`).

## Sources
python_backend, README ("Important Notes": `--shm-size`). Docker, `--shm-size` (64 MB by default).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.deployment_files import Container, containers_of
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.WARNING, question=LintTopic.DEPLOYMENT)


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report containers that leave it at the default."""
    found = [one for one in containers_of(view.documents) if one.runs_triton and not _has_memory(one)]
    if not found or not _has_python_models(view):
        return
    for container in found:
        yield view.problem(
            f"{container.name or 'Triton'} has 64 MB of shared memory, which its Python models share",
            at=view.find(container.image) if container.image else view.find(container.name),
            help="mount an emptyDir of medium Memory at /dev/shm" if container.kubernetes else "set shm_size: 1gb",
        )


def _has_memory(container: Container) -> bool:
    tree = container.tree
    if not container.kubernetes:
        return "shm_size" in tree or tree.get("ipc") is not None or _mounts(tree.get("tmpfs"))
    return _mounts(tree.get("volumeMounts"))


def _mounts(written: object) -> bool:
    return "/dev/shm" in str(written)  # noqa: S108 -- a mount that is looked for, not a file that is written


def _has_python_models(view: FileView) -> bool:
    models = (model for repository in view.project.repositories for model in repository.models.values())
    return any(model.backend == names.PYTHON_BACKEND for model in models)


_COMPOSE = "services:\n  triton:\n    image: nvcr.io/nvidia/tritonserver:24.10-py3\n"
_PYTHON = {"models/a/config.pbtxt": 'backend: "python"\n'}
CASES = (
    RuleCase.fires("when the size is left at the default", {**_PYTHON, "compose.yaml": _COMPOSE}, "compose.yaml:3:12"),
    RuleCase.quiet("when the size is set", {**_PYTHON, "compose.yaml": _COMPOSE + "    shm_size: 2gb\n"}),
    RuleCase.quiet(
        "without Python models", {"models/a/config.pbtxt": 'backend: "onnxruntime"\n', "compose.yaml": _COMPOSE}
    ),
)
