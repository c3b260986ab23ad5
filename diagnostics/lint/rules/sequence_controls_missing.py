"""A stateful model lacks controls that its strategy needs.

## Looks for
Models of a framework's backend with a sequence batcher, without:
- `CONTROL_SEQUENCE_START`, unless each state has an `initial_state`.
- `CONTROL_SEQUENCE_READY`, if the strategy is `direct` and the model batches.
- `CONTROL_SEQUENCE_CORRID`, if the strategy is `oldest` and the server keeps no `state`.

## Means
A graph learns about a sequence only through its control tensors. Without start, it continues with the state of an ended
sequence. Without ready, it cannot see which slots of a batch hold no request. With `oldest`, a sequence has no fixed
slot. Without a correlation id, the graph cannot match states to sequences. Answers are wrong, but nothing fails.

## Do
Add a `control_input` for each, with the name of the graph's input. Python models read `request.flags()` and
`request.correlation_id()` instead, and are not checked. Other backends are not checked if this is unknown.

## Sources
Triton user guide, "Stateful Models" (control inputs; scheduling strategies; implicit state). All of this loads without
controls: seen on Triton 2.51.
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.block import ConfigMessage
from diagnostics.lint.instances import CORRID, READY, START, batcher, controls, whole
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.FITS)

_GRAPHS = frozenset({"tensorrt", "onnxruntime", "pytorch", "tensorflow", "openvino"})


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each control that is missing."""
    batching = batcher(view.model)
    if batching is None or view.model.backend not in _GRAPHS or not whole(batching):
        return
    reported = {control.kind for control in controls(batching)}
    if None in reported:
        return
    for kind, why in _needed(view, batching).items():
        if kind not in reported:
            yield view.problem(f"without {kind} {view.model.name} cannot know {why}", at=batching.place)


def _needed(view: ConfiguredModelView, batching: ConfigMessage) -> dict[str, str]:
    states, oldest = batching.blocks("state"), batching.has("oldest")
    needed = {}
    if not states or not all(state.has("initial_state") for state in states):
        needed[START] = "where a sequence begins"
    if not oldest and (view.model.max_batch_size or 0) > 1:
        needed[READY] = "which places of a batch hold a request"
    if oldest and not states:
        needed[CORRID] = "which sequence a request belongs to"
    return needed


def _model(more: str, backend: str = "onnxruntime") -> dict[str, str]:
    head = f'backend: "{backend}"\nmax_batch_size: 4\n'
    return {"models/a/config.pbtxt": f"{head}sequence_batching {{\n{more}\n}}\n"}


def _controls(*kinds: str) -> str:
    return "\n".join(f"control_input {{ name: '{kind[-3:]}' control {{ kind: {kind} }} }}" for kind in kinds)


_PLACE = "models/a/config.pbtxt:3:19"
CASES = (
    RuleCase.fires("when a batch of slots has neither start nor ready", _model("direct { }"), _PLACE, _PLACE),
    RuleCase.fires(
        "when strategy `oldest` has no correlation id",
        _model(f"oldest {{ max_candidate_sequences: 4 }}\n{_controls(START)}"),
        _PLACE,
    ),
    RuleCase.quiet("when a batch of slots has both controls", _model(_controls(START, READY))),
    RuleCase.quiet(
        "when the server keeps and initialises the state",
        _model("oldest { }\nstate { initial_state { name: 'i' zero_data: true } }"),
    ),
    RuleCase.quiet("about Python models", _model("direct { }", backend="python")),
    RuleCase.quiet("about templates", _model("direct { }\ncontrol_input ${controls}")),
)
