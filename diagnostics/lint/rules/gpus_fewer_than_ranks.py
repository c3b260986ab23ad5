"""An engine has more ranks than its container has GPUs.

## Looks for
Containers run Triton and state how many GPUs they get. An engine of the one linted repository has more ranks:
TensorRT-LLM's by its `config.json` or `model.yaml`, vLLM's by its `model.json`.

## Means
Each rank needs its own GPU: the engine does not start, and its model does not load.

## Do
Give the container as many GPUs as the engine has ranks, times its instances. Or build the engine for fewer GPUs. If its
ranks are spread over several such containers, waive this.

## Sources
TensorRT-LLM, "LLM API Reference" (`tensor_parallel_size`); vLLM, "Parallelism and Scaling". Docker, "Compose Deploy
Specification"; Kubernetes, "Schedule GPUs".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.deployment_files import containers_of, gpus_given
from diagnostics.lint.engines import ranks
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import FileView, LintTopic, Rule, RuleCase, RuleScope

# Which repository a container serves follows only from there being one, so this is likely, not sure.
RULE = Rule(scope=RuleScope.DEPLOYMENT_FILE, severity=LintSeverity.WARNING, question=LintTopic.DEPLOYMENT)


def lint(view: FileView) -> Iterator[LintProblem]:
    """Report the engine with the most ranks."""
    servers = [container for container in containers_of(view.documents) if container.runs_triton]
    limits = [(container, given) for container in servers if (given := gpus_given(container)) is not None]
    if not limits or len(view.project.repositories) != 1:
        return
    most, engine = max((ranks(model) or 0, model.name) for model in view.project.repositories[0].models.values())
    for container, given in limits:
        if given < most:
            yield view.problem(
                f"{engine} takes {most} GPUs, but {container.name or 'Triton'} is given {given}",
                at=view.find(container.image),
                help="give the container as many GPUs as the engine has ranks, or make it for fewer",
            )


def _files(given: str, ranks_: int = 2) -> dict[str, str]:
    return {
        "models/llm/config.pbtxt": 'backend: "python"\n',
        "models/llm/1/model.yaml": f"model: m\ntensor_parallel_size: {ranks_}\n",
        "compose.yaml": "services:\n  triton:\n    image: nvcr.io/nvidia/tritonserver:25.01-trtllm-python-py3\n"
        f"    {given}\n",
    }


def _devices(device: str) -> str:
    return f"deploy: {{ resources: {{ reservations: {{ devices: [ {{ driver: nvidia, {device} }} ] }} }} }}"


_PLACE = ("compose.yaml:3:12",)
_POD = """apiVersion: v1
kind: Pod
spec: { containers: [ { name: t, image: tritonserver, resources: { limits: { nvidia.com/gpu: 1 } } } ] }
"""
CASES = (
    RuleCase(title="fires when one GPU is reserved for two ranks", files=_files(_devices("count: 1")), places=_PLACE),
    RuleCase(title="fires when fewer GPUs are listed", files=_files(_devices("device_ids: ['0']")), places=_PLACE),
    RuleCase(
        title="fires when fewer GPUs are visible",
        files=_files('environment: { CUDA_VISIBLE_DEVICES: "0,1" }', 4),
        places=_PLACE,
    ),
    RuleCase.fires("when a pod gets fewer GPUs", {**_files(""), "pod.yaml": _POD}, "pod.yaml:3:41"),
    RuleCase.quiet("when the GPUs are enough", _files(_devices("count: 2"))),
    RuleCase.quiet("when all GPUs are given, or no number is stated", _files(_devices("count: all"))),
    RuleCase.quiet(
        "when the container may use another repository",
        {**_files(_devices("count: 1")), "others/a/config.pbtxt": 'backend: "python"\n'},
    ),
)
