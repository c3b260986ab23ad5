"""An ensemble joins the answers that a decoupled member streams with something else.

## Looks for
A step's inputs, or an ensemble's outputs, come partly from a decoupled member and partly from elsewhere. Elsewhere is
the request, another decoupled member, or the same model in another step. Members of unknown decoupling are not checked.

## Means
A decoupled member may answer any number of times, so nothing shows which answers belong together. The server refuses
the ensemble at load: "receives inputs originated from different decoupled models".

## Do
Pass each tensor that is needed later through the decoupled member, which returns it with each answer. Or join in a BLS
model. Or set `decoupled: false` if each request has one answer.

## Sources
Triton core, `ensemble_utils.cc` ("different decoupled models"). Each case was seen on Triton 2.51. Two decoupled
members in a chain load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from diagnostics.lint.engines import streams
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import StepBlock, run_order, steps, tensors

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.ERROR, question=LintTopic.FITS)

_REQUEST = -1
Origins = Mapping[str, int]
"""Of each tensor the number of the last decoupled step behind it, or that of the request."""


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each join, where the whole ensemble and all its members are known."""
    every = steps(view.config)
    inputs, outputs = tensors(view.config, "input"), tensors(view.config, "output")
    members = [view.named(step.model) if step.model else None for step in every]
    stated = [streams(member, view.named) if member else None for member in members]
    if inputs is None or outputs is None or None in stated or True not in stated:
        return
    if not all(step.complete for step in every):
        return
    origins = _origins([tensor.name for tensor in inputs], every, stated)
    for step in every:
        read = {text.value or "": text.place for text in step.inputs.values()}
        for one, other in _apart(list(read), origins):
            what = _reported(one, other, origins, every)
            yield view.problem(f"{step.model} joins {what}: the ensemble does not load", at=read[other], help=_HELP)
    places = {tensor.name: tensor.place for tensor in outputs}
    for one, other in _apart(list(places), origins):
        what = _reported(one, other, origins, every)
        yield view.problem(f"the answer joins {what}: the ensemble does not load", at=places[other], help=_HELP)


_HELP = "pass what is needed later through the decoupled model, or join in a BLS model"


def _origins(given: Sequence[str], every: Sequence[StepBlock], stated: Sequence[bool | None]) -> Origins:
    origins = dict.fromkeys(given, _REQUEST)
    for number in run_order(every, given):
        read = [origins.get(text.value or "", _REQUEST) for text in every[number].inputs.values()]
        origin = number if stated[number] else max(read, default=_REQUEST)
        origins |= {text.value or "": origin for text in every[number].outputs.values()}
    return origins


def _apart(names: Sequence[str], origins: Origins) -> Iterator[tuple[str, str]]:
    """Yield the first of the tensors whose origin is not that of the first one, with that one."""
    known = [name for name in names if name in origins]
    other = next((name for name in known if origins[name] != origins[known[0]]), None)
    if other is not None:
        yield known[0], other


def _reported(one: str, other: str, origins: Origins, every: Sequence[StepBlock]) -> str:
    return f"{one!r} of {_origin(origins[one], every)} with {other!r} of {_origin(origins[other], every)}"


def _origin(number: int, every: Sequence[StepBlock]) -> str:
    return "the request" if number == _REQUEST else f"{every[number].model}, which is decoupled (step {number + 1})"


def _step(model: str, inputs: str, outputs: str) -> str:
    maps = [f'input_map {{ key: "I{n}" value: "{name}" }}' for n, name in enumerate(inputs)]
    maps += [f'output_map {{ key: "O{n}" value: "{name}" }}' for n, name in enumerate(outputs)]
    return f'  step {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}\n'


def _files(*steps_: str, outputs: str = "Y") -> dict[str, str]:
    written = "".join(f'output {{ name: "{name}" }}\n' for name in outputs)
    head = f'platform: "ensemble"\ninput {{ name: "X" }}\n{written}ensemble_scheduling {{\n'
    policy = "model_transaction_policy { decoupled: true }\n"
    return {
        "models/all/config.pbtxt": f"{head}{''.join(steps_)}}}\n",
        "models/a/config.pbtxt": 'backend: "pytorch"\n',
        "models/llm/config.pbtxt": f'backend: "tensorrtllm"\n{policy}',
        "models/tts/config.pbtxt": f'backend: "python"\n{policy}',
        "models/open/config.pbtxt": f'backend: "python"\n{policy.replace("true", "${decoupled}")}',
    }


CASES = (
    RuleCase.fires(
        "when a stream meets the request",
        _files(_step("llm", "X", "M"), _step("a", "MX", "Y")),
        "models/all/config.pbtxt:6:108",
    ),
    RuleCase.fires(
        "when two streams meet, or one runs twice",
        _files(_step("llm", "X", "M"), _step("tts", "X", "N"), _step("a", "MN", "Y")),
        "models/all/config.pbtxt:7:108",
    ),
    RuleCase.fires(
        "when a stream meets its own earlier form",
        _files(_step("a", "NM", "Y"), _step("tts", "M", "N"), _step("llm", "X", "M")),
        "models/all/config.pbtxt:5:108",
    ),
    RuleCase.fires(
        "when the answers join a stream with something else",
        _files(_step("llm", "X", "Y"), _step("a", "X", "Z"), outputs="YZ"),
        "models/all/config.pbtxt:4:10",
    ),
    RuleCase.quiet(
        "about streams in a chain, and branches of one stream",
        _files(_step("llm", "X", "M"), _step("tts", "M", "N"), _step("a", "N", "P"), _step("a", "NP", "Y")),
    ),
    RuleCase.quiet(
        "when a member is missing, or a template decides",
        _files(_step("llm", "X", "M"), _step("open", "X", "N"), _step("gone", "MN", "Y")),
    ),
)
