"""Several instances of an engine share a GPU, each with its own weights and cache.

## Looks for
More than one instance of a TensorRT-LLM or vLLM model, without `gpu_device_ids` that give each its own GPUs.

## Means
Each instance loads the engine again, after the first one's KV cache has taken the memory. The second fails to load, or
gets a cache that is far too small. An engine batches inside, so instances add nothing to that.

## Do
Use one instance per engine and GPU. For more throughput on more GPUs, list them: `gpu_device_ids: "0;1"`, one list per
instance. Or run one server per GPU.

## Sources
tensorrtllm_backend#274 (a second instance does not fit), fastertransformer_backend#72; `llama_multi_instance.md`.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import TENSORRT_LLM, VLLM, engine_gpus, parameter, unset
from diagnostics.lint.instances import groups, instances
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)

_GPUS = "gpu_device_ids"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report instances that have no GPUs of their own."""
    count = instances(view.model)
    if view.model.backend not in (TENSORRT_LLM, VLLM) or count is None or count < 2 or _apart(view, count):
        return
    setting = Setting(path="instance_group.count", value=1)
    single = len(groups(view.model) or ()) == 1
    yield view.problem(
        f"{count} instances load the engine {count} times",
        at=view.config.at("instance_group"),
        help=f"keep one, or give each its GPUs in {_GPUS}",
        fix=ConfigChange(model=view.model.name, settings=(setting,)) if single else None,
    )


def _apart(view: ConfiguredModelView, count: int) -> bool:
    """Return whether each instance has GPUs of its own, or may have."""
    lists = engine_gpus(view.model)
    gpus = [gpu for one in lists for gpu in one]
    known = unset(view.model, _GPUS) or parameter(view.model, _GPUS) is not None
    if view.model.backend == VLLM:
        listed = [group.gpus or () for group in groups(view.model) or ()]
        gpus = [gpu for one in listed for gpu in one]
        return all(listed) and len(listed) == count and len(gpus) == len(set(gpus))
    return not known or (len(lists) >= count and len(gpus) == len(set(gpus)))


def _engine(count: str, gpus: str = "", name: str = "llm") -> dict[str, str]:
    parameter_ = f'parameters {{ key: "{_GPUS}" value {{ string_value: "{gpus}" }} }}\n' if gpus else ""
    text = f'name: "llm"\nbackend: "tensorrtllm"\ninstance_group {{ count: {count} kind: KIND_CPU }}\n{parameter_}'
    return {f"models/{name}/config.pbtxt": text}


def _vllm(*written: str) -> str:
    return 'backend: "vllm"\n' + "".join(f"instance_group {{ kind: KIND_GPU {one} }}\n" for one in written)


CASES = (
    RuleCase.fires("when two instances share a GPU", _engine("2"), "3:1"),
    RuleCase.fires("when two are given the same GPU", _engine("2", "0;0"), "3:1"),
    RuleCase.fires(
        "when two vLLM engines share, and is quiet about two with a GPU each",
        {"models/a/config.pbtxt": _vllm("count: 2"), "models/b/config.pbtxt": _vllm("gpus: 0", "gpus: 1")},
        "2:1",
    ),
    RuleCase.quiet("when each instance has its own GPU", _engine("2", "0,1;2,3")),
    RuleCase.quiet("about one instance, or a template", {**_engine("1"), **_engine("${count}", name="other")}),
    RuleCase.quiet("when the GPUs are a template", _engine("2", "${gpus}")),
)
