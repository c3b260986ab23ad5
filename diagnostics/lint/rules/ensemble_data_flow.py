"""A tensor of an ensemble has no writer, has two, or depends on itself.

## Looks for
Any of these:
- Steps that wait for a tensor which no input or step writes.
- Steps that wait for each other in a cycle.
- A tensor that two steps write.
- An output of the ensemble that no step writes.

## Means
The server refuses the ensemble at load: "output … is not written", "… can appear in an output map only once".

## Do
Follow the tensor by its name through the maps. Each `input_map` value must be an input of the ensemble, or the value of
exactly one `output_map`.

## Sources
Triton core, `model_config_utils.cc` (`BuildEnsembleGraph`, `ValidateEnsembleSchedulingConfig`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from diagnostics.lint.block import Text
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import StepBlock, run_order, steps, tensors

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_LISTED = 10


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each tensor that does not flow, where the whole ensemble is known."""
    every = steps(view.config)
    inputs, outputs = tensors(view.config, "input"), tensors(view.config, "output")
    if inputs is None or outputs is None or not every or not all(step.complete for step in every):
        return
    yield from _written_twice(view, every)
    given = {tensor.name for tensor in inputs}
    ran = set(run_order(every, given))
    waiting = [step for number, step in enumerate(every) if number not in ran]
    written = given.union(*(_outputs(every[number]) for number in ran))
    produced = {text.value for step in every for text in step.outputs.values()}
    yield from _stuck(view, waiting, written, produced)
    for output in outputs:
        if output.name not in produced:
            yield view.problem(f"no step writes the output {output.name!r}", at=output.place)


def _written_twice(view: ConfiguredModelView, every: Collection[StepBlock]) -> Iterator[LintProblem]:
    seen = set[str | None]()
    for step in every:
        for text in step.outputs.values():
            if text.value in seen:
                yield view.problem(f"{text.value!r} is written a second time", at=text.place)
            seen.add(text.value)


def _outputs(step: StepBlock) -> set[str]:
    return {text.value or "" for text in step.outputs.values()}


def _stuck(
    view: ConfiguredModelView, waiting: list[StepBlock], written: Collection[str], produced: Collection[str | None]
) -> Iterator[LintProblem]:
    missing = [(step, text) for step in waiting for text in step.inputs.values() if text.value not in written]
    by_nobody = [(step, text) for step, text in missing if text.value not in produced]
    for step, text in by_nobody:
        yield view.problem(f"{step.model} waits for {text.value!r}, which no step writes", at=text.place)
    if missing and not by_nobody:
        yield _circle(view, *missing[0], waiting)


def _circle(view: ConfiguredModelView, step: StepBlock, text: Text, waiting: list[StepBlock]) -> LintProblem:
    names = ", ".join(one.model or "?" for one in waiting[:_LISTED]) + (", …" if len(waiting) > _LISTED else "")
    return view.problem(f"{step.model} waits for {text.value!r} in a circle of {names}", at=text.place)


def _ensemble(*steps_: tuple[str, str, str]) -> str:
    written = "\n".join(
        f'  step {{ model_name: "{model}" input_map {{ key: "I" value: "{taken}" }} '
        f'output_map {{ key: "O" value: "{given}" }} }}'
        for model, taken, given in steps_
    )
    head = 'name: "all"\nplatform: "ensemble"\ninput { name: "X" }\noutput { name: "Y" }\n'
    return f"{head}ensemble_scheduling {{\n{written}\n}}\n"


CASES = (
    RuleCase.fires(
        "when no step writes an awaited tensor",
        {"models/all/config.pbtxt": _ensemble(("a", "X", "M"), ("b", "N", "Y"))},
        "7:54",
    ),
    RuleCase.fires(
        "once when steps wait in a cycle",
        {"models/all/config.pbtxt": _ensemble(("a", "Y", "M"), ("b", "M", "Y"))},
        "6:54",
    ),
    RuleCase.fires(
        "when two steps write a tensor",
        {"models/all/config.pbtxt": _ensemble(("a", "X", "Y"), ("b", "X", "Y"))},
        "7:89",
    ),
    RuleCase.quiet(
        "when steps are listed in another order than they run",
        {"models/all/config.pbtxt": _ensemble(("b", "M", "Y"), ("a", "X", "M"))},
    ),
    RuleCase.quiet(
        "when a template may connect them",
        {"models/all/config.pbtxt": _ensemble(("a", "X", "M"), ("b", "${tensor}", "Y"))},
    ),
)
