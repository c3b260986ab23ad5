"""A model streams answers to another that cannot pass them on.

## Looks for
A Python model calls an engine by a parameter such as `tensorrt_llm_model_name`, and only one of the two is decoupled.
Also ensembles with a decoupled member, whose clients must stream.

## Means
A decoupled engine sends each token as a separate answer. A caller that is not decoupled can give its client only one
answer, so streaming fails or is lost. If only the caller is decoupled, it has nothing to stream. Decoupled models and
ensembles of them refuse `infer` over HTTP: clients need gRPC streams, or `generate_stream`.

## Do
Set `model_transaction_policy.decoupled` to the same value for both, depending on what clients need.

## Sources
tensorrtllm_backend, `model_config.md` (`decoupled_mode`). Triton user guide, "Decoupled Backends and Models".
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics import names
from diagnostics.lint.engines import decoupled, is_engine, parameters, streams
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report callers and engines that differ, and ensembles that stream."""
    for model in view.repository.models.values():
        if model.ensemble:
            yield from _of_ensemble(view, model)
        elif model.backend == names.PYTHON_BACKEND:
            yield from _of_caller(view, model)


def _of_caller(view: RepositoryView, caller: ModelFolder) -> Iterator[LintProblem]:
    for key, text in parameters(caller).items():
        engine = view.repository.models.get(text.value or "") if key.endswith(names.CALLED_MODEL) else None
        if engine is None or not is_engine(engine):
            continue
        ours, theirs = decoupled(caller), decoupled(engine)
        if None not in (ours, theirs) and ours != theirs:
            streams, other = (engine.name, caller.name) if theirs else (caller.name, engine.name)
            yield view.problem(f"{streams} is decoupled, but {other} is not: answers do not stream", at=caller.place)


def _of_ensemble(view: RepositoryView, ensemble: ModelFolder) -> Iterator[LintProblem]:
    models = view.repository.models
    members = [step.model or "" for step in steps(ensemble.config)] if ensemble.config else []
    streaming = [name for name in members if name in models and streams(models[name], models.get)]
    if streaming:
        yield view.problem(
            f"{streaming[0]} is decoupled, so clients of {ensemble.name} have to stream",
            at=ensemble.place,
            help="use gRPC streams or generate_stream; `infer` over HTTP is refused",
            severity=LintSeverity.INFO,
        )


_POLICY = "model_transaction_policy { decoupled: true }\n"
_CALLS = 'parameters { key: "tensorrt_llm_model_name" value { string_value: "llm" } }\n'
_BLS = {"models/bls/config.pbtxt": f'name: "bls"\nbackend: "python"\n{_CALLS}'}
_ENGINE = 'name: "llm"\nbackend: "tensorrtllm"\n'
_ALL = {
    "models/all/config.pbtxt": 'name: "all"\nplatform: "ensemble"\nensemble_scheduling { step { model_name: "llm" } }\n'
}
CASES = (
    RuleCase.fires(
        "for a caller that cannot stream and for an ensemble that can",
        {**_BLS, **_ALL, "models/llm/config.pbtxt": _ENGINE + _POLICY},
        "models/all/config.pbtxt:1:1",
        "models/bls/config.pbtxt:1:1",
    ),
    RuleCase.quiet("when neither streams", {**_BLS, **_ALL, "models/llm/config.pbtxt": _ENGINE}),
    RuleCase.quiet(
        "when a template decides",
        {**_BLS, **_ALL, "models/llm/config.pbtxt": _ENGINE + _POLICY.replace("true", "${decoupled}")},
    ),
)
