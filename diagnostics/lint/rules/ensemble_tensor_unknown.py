"""A step maps a tensor that its model does not have, or omits one that it needs.

## Looks for
A key of `input_map` or `output_map` that is no input or output of the member. Also inputs of the member that are
neither `optional` nor mapped. This is a warning if the member's backend may add tensors to those of its file.

## Means
The server refuses the ensemble at load: "… is mapping to non-existing input …", "… is not mapped to any ensemble
tensors".

## Do
Use the member's name of the tensor as the key, and the ensemble's as the value.

## Sources
Triton core, `ensemble_utils.cc` (`ValidateTensorMapping`). User guide, "Auto-Generated Model Configuration".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from diagnostics.lint.block import Text
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import StepBlock, steps, tensors

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each key that names no tensor, and each input that is not mapped."""
    for step in steps(view.config):
        member = view.repository.models.get(step.model or "")
        if member is None or member.config is None:
            continue
        yield from _without_key(view, step, member)
        yield from _without_tensor(view, step.inputs, member, "input")
        yield from _without_tensor(view, step.outputs, member, "output")
        yield from _not_mapped(view, step, member)


def _without_key(view: ConfiguredModelView, step: StepBlock, member: ModelFolder) -> Iterator[LintProblem]:
    for field in ("input", "output"):
        for entry in step.block.blocks(f"{field}_map"):
            if entry.text("key") == "":
                yield view.problem(f"an entry of {field}_map names no {field} of {member.name}", at=entry.place)


def _without_tensor(
    view: ConfiguredModelView, keys: Mapping[str, Text], member: ModelFolder, field: str
) -> Iterator[LintProblem]:
    written = tensors(member.config, field) if member.config else None
    names, sure = {tensor.name for tensor in written or ()}, written is not None and not member.completed
    known = bool(names) or (written is not None and not member.completed)
    for key, text in keys.items() if known else ():
        if "${" not in key and key not in names:
            yield view.problem(
                f"{key!r} is no {field} of {member.name}{'' if sure else ' in its configuration'}",
                at=text.place,
                help=f"it has {_listed(names) or 'none'}",
                severity=None if sure else LintSeverity.WARNING,
            )


def _not_mapped(view: ConfiguredModelView, step: StepBlock, member: ModelFolder) -> Iterator[LintProblem]:
    needed = tensors(member.config, "input") if member.config and step.complete else None
    missing = [one.name for one in needed or () if one.optional is False and one.name not in step.inputs]
    if missing:
        yield view.problem(
            f"the step does not map {_listed(missing)}, which {member.name} needs",
            at=step.block.at("model_name"),
            help="map it to a tensor of the ensemble, or mark the input `optional` where the model allows it",
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


_ENSEMBLE = """name: "all"
platform: "ensemble"
ensemble_scheduling { step { model_name: "safety"
  input_map { key: "EMBEDDING" value: "X" }
  output_map { key: "SCORE" value: "Y" } } }
"""
_MEMBER = """name: "safety"
backend: "python"
input { name: "EMBEDDING" data_type: TYPE_FP32 dims: 4 }
output { name: "SCORE" data_type: TYPE_FP32 dims: 1 }
"""
_OTHER = _MEMBER.replace("EMBEDDING", "VECTOR")
CASES = (
    RuleCase.fires(
        "for both tensors when a key is misspelled",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _OTHER,
            "models/safety/1/model.py": "class TritonPythonModel: ...",
        },
        "3:30",
        "4:39",
    ),
    RuleCase.quiet(
        "when an input that is not mapped is optional",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _MEMBER + 'input { name: "B" optional: true }\n',
        },
    ),
    RuleCase.quiet(
        "about unknown keys when the backend completes the configuration",
        {
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": 'name: "safety"\nbackend: "onnxruntime"\n',
        },
    ),
    RuleCase(
        title="warns when a backend that may add tensors declares others",
        files={
            "models/all/config.pbtxt": _ENSEMBLE,
            "models/safety/config.pbtxt": _MEMBER.replace("SCORE", "MARK").replace("python", "onnxruntime"),
        },
        places=("models/all/config.pbtxt:5:36",),
    ),
    RuleCase.quiet(
        "about inputs when a template may map them",
        {
            "models/all/config.pbtxt": _ENSEMBLE.replace('"EMBEDDING"', '"${tensor}"'),
            "models/safety/config.pbtxt": _MEMBER,
        },
    ),
)
