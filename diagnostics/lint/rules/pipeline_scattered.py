"""The stages of a pipeline exist, but nothing joins them on the server.

## Looks for
Another model writes at least two inputs of a language-model engine, by name and data type. For TensorRT-LLM, `INPUT_ID`
matches `input_ids`. No ensemble and no model of the repository calls either. Generic names, such as `INPUT0`, do not
count.

## Means
The client calls each stage itself. Every tensor between stages crosses the network twice, and every stage waits for the
client. The server's traces and metrics show stages, not requests.

## Do
Join them in an ensemble. If the path depends on their answers, use a model that calls them.

## Sources
Triton user guide, "Ensemble Models". tensorrtllm_backend, `all_models` (`ensemble`, `tensorrt_llm_bls`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from diagnostics.lint.engines import called_models, calls_others, is_engine
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import LintTopic, RepositoryView, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import DeclaredTensor, steps, tensors

RULE = Rule(scope=RuleScope.REPOSITORY, severity=LintSeverity.WARNING, question=LintTopic.ENSEMBLE)

_ALIASES = {"input_id": "input_ids", "request_input_len": "input_lengths", "tokens_batch": "output_ids"}
_Output = tuple[str, str | None]
_COMMON = re.compile(r"_*(input|output|in|out|data|x|y|result|logits|image|images|text|prob|scores?)(_?\d*)_*")
# One name in common may be chance.
_LEAST = 2


def lint(view: RepositoryView) -> Iterator[LintProblem]:
    """Report each engine whose inputs another model writes and that nobody calls."""
    models = view.repository.models.values()
    engines = [model for model in models if is_engine(model) and not model.ensemble]
    called = _called(models) if engines else None
    if called is None:
        return
    writers = _writers(models)
    for engine in engines:
        feeding = _feeding(engine, writers)
        if feeding and not called & {engine.name, *feeding}:
            yield view.problem(
                f"{', '.join(feeding)} writes what {engine.name} reads, but nothing on the server joins them",
                at=engine.place,
                help="join them by an ensemble",
            )


def _called(models: Iterable[ModelFolder]) -> frozenset[str] | None:
    """Return the names of models that others call; None when the code of one may call any."""
    found: set[str | None] = set()
    for model in models:
        if model.ensemble:
            found |= {step.model for step in steps(model.config)} if model.config else set()
        elif calls_others(model):
            called = called_models(model)
            if called is None:
                return None
            found |= called
    return frozenset(filter(None, found))


def _writers(models: Iterable[ModelFolder]) -> Mapping[tuple[str, str | None], list[str]]:
    found: dict[tuple[str, str | None], list[str]] = {}
    for model in models:
        for tensor in (tensors(model.config, "output") or ()) if model.config and not model.ensemble else ():
            found.setdefault((_name(tensor), tensor.data_type), []).append(model.name)
    return found


def _feeding(engine: ModelFolder, writers: Mapping[tuple[str, str | None], list[str]]) -> list[str]:
    """Return the models that write at least two inputs that an engine needs, where their names are specific."""
    inputs = tensors(engine.config, "input") or () if engine.config else ()
    needed = [one for one in inputs if one.optional is False and _is_informative(one)]
    counts = Counter(name for one in needed for name in writers.get((_name(one), one.data_type), ()))
    return sorted(name for name, count in counts.items() if count >= _LEAST and name != engine.name)


def _is_informative(tensor: DeclaredTensor) -> bool:
    return _COMMON.fullmatch(tensor.name.lower()) is None


def _name(tensor: DeclaredTensor) -> str:
    plain = tensor.name.lower().strip("_")
    return _ALIASES.get(plain, plain)


_PRE = """name: "preprocessing"
backend: "python"
output [ { name: "INPUT_ID" data_type: TYPE_INT32 }, { name: "REQUEST_INPUT_LEN" data_type: TYPE_INT32 } ]
"""
_LLM = """name: "tensorrt_llm"
backend: "tensorrtllm"
input [ { name: "input_ids" data_type: TYPE_INT32 }, { name: "input_lengths" data_type: TYPE_INT32 } ]
"""
_STAGES = {"models/preprocessing/config.pbtxt": _PRE, "models/tensorrt_llm/config.pbtxt": _LLM}
_ENSEMBLE = 'platform: "ensemble"\nensemble_scheduling { step { model_name: "tensorrt_llm" } }\n'
_CALLER = 'backend: "python"\nparameters { key: "tensorrt_llm_model_name" value { string_value: "tensorrt_llm" } }\n'
_IN_CODE = "request = pb_utils.InferenceRequest(model_name='tensorrt_llm', inputs=inputs)\n"
CASES = (
    RuleCase.fires("when nothing joins a tokenizer and an engine", _STAGES, "models/tensorrt_llm/config.pbtxt:1:1"),
    RuleCase.quiet("when an ensemble joins them", {**_STAGES, "models/all/config.pbtxt": _ENSEMBLE}),
    RuleCase.quiet("when a model joins them", {**_STAGES, "models/bls/config.pbtxt": _CALLER}),
    RuleCase.quiet(
        "when a model's code joins them, whatever its parameters",
        {
            **_STAGES,
            "models/bls/config.pbtxt": _CALLER.replace("tensorrt_llm_model_name", "tokenizer_dir"),
            "models/bls/1/model.py": _IN_CODE,
        },
    ),
    RuleCase.quiet(
        "about models that only share common names",
        {
            "models/a/config.pbtxt": _PRE.replace("INPUT_ID", "INPUT0").replace("REQUEST_INPUT_LEN", "INPUT1"),
            "models/b/config.pbtxt": _LLM.replace("input_ids", "INPUT0").replace("input_lengths", "INPUT1"),
        },
    ),
)
