"""A Python stage of a pipeline has one instance, and all requests pass through it one by one.

## Looks for
A member of an ensemble on the Python backend with one CPU instance. Engines, decoupled models, models that call others
and code that uses CUDA are left out: another instance is not cheap.

## Means
A Python instance runs one execution at a time in its own interpreter. While it tokenizes one request, all others wait,
and so does the GPU behind it.

## Do
Raise `instance_group.count`, and check with `diag explain` whether the stage is still the bottleneck. NVIDIA found 5
instances of the stages around TensorRT-LLM engines sufficient for most uses. Each instance holds its own copy of what
it loads.

## Sources
tensorrtllm_backend, `model_config.md` ("Setting the instance_count"). server#5317 (a single pre-step starves a model).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.engines import calls_others, code_of, is_engine
from diagnostics.lint.instances import groups
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity, SourceLocation
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.WARNING, question=LintTopic.OVERLAP)

_FOR_OVERLAP = 2


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each member with one instance, once."""
    models = view.repository.models
    members = {step.model for model in models.values() if model.config for step in steps(model.config)}
    for name in sorted(filter(None, members)):
        model = models.get(name)
        place = _single(model) if model else None
        if model is not None and place is not None:
            setting = Setting(path="instance_group.count", value=_FOR_OVERLAP)
            yield view.problem(
                f"{name} has one instance: requests pass it one after another",
                at=place,
                help="raise its count, and see with diag explain whether requests still wait for it",
                fix=ConfigChange(model=name, settings=(setting,)),
            )


def _single(model: ModelFolder) -> SourceLocation | None:
    """Return where a Python model says that it has one instance on a processor; None when it does not."""
    found = groups(model)
    python = model.backend == names.PYTHON_BACKEND and is_engine(model) is False
    if not python or not found or len(found) > 1 or model.config is None or _dear(model):
        return None
    (group,) = found
    return group.block.place if group.kind == names.KIND_CPU and group.count == 1 else None


def _dear(model: ModelFolder) -> bool:
    """Return whether another instance would cost more than processor time, or would not overlap."""
    return calls_others(model) or _decoupled(model) or any("cuda" in file.text for file in code_of(model))


def _decoupled(model: ModelFolder) -> bool:
    policy = model.config.block("model_transaction_policy") if model.config else None
    return policy is not None and policy.flag("decoupled") is not False


_ENSEMBLE = 'name: "all"\nplatform: "ensemble"\nensemble_scheduling { step { model_name: "tokenize" } }\n'
_STAGE = 'name: "tokenize"\nbackend: "python"\ninstance_group [ { kind: KIND_CPU count: 1 } ]\n'
CASES = (
    RuleCase.fires(
        "when a member has one instance",
        {"models/all/config.pbtxt": _ENSEMBLE, "models/tokenize/config.pbtxt": _STAGE},
        "models/tokenize/config.pbtxt:3:18",
    ),
    RuleCase.quiet(
        "about more instances, or a template",
        {
            "models/all/config.pbtxt": _ENSEMBLE.replace("}\n", 'step { model_name: "detokenize" } }\n'),
            "models/tokenize/config.pbtxt": _STAGE.replace("count: 1", "count: 5"),
            "models/detokenize/config.pbtxt": _STAGE.replace("count: 1", "count: ${count}"),
        },
    ),
    RuleCase.quiet("when no ensemble calls the model", {"models/tokenize/config.pbtxt": _STAGE}),
    RuleCase.quiet(
        "when the model calls others",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/tokenize/config.pbtxt": _STAGE,
            "models/tokenize/1/model.py": "pb_utils.InferenceRequest(model_name='x').exec()",
        },
    ),
    RuleCase.quiet(
        "when the model computes on a GPU",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/tokenize/config.pbtxt": _STAGE,
            "models/tokenize/1/model.py": "self.model.to('cuda')",
        },
    ),
)
