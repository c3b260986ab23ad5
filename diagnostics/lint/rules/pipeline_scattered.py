"""The stages of a pipeline are there, but nothing joins them on the server.

## Looks for
An engine of a language model at least two of whose inputs another model writes, by name and data type (for
TensorRT-LLM, `INPUT_ID` for `input_ids`), where no ensemble and no model of the repository calls either. Names that
models of any kind share, such as `INPUT0`, do not count.

## Means
The client calls each stage by itself: every tensor between them crosses the network twice, and every stage waits for
the client. Traces and metrics of the server show stages, not requests.

## Do
Join them by an ensemble, or by a model that calls them where the path depends on what they answer.

## Sources
Triton user guide, "Ensemble Models". tensorrtllm_backend, `all_models` (`ensemble`, `tensorrt_llm_bls`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from diagnostics.lint.engines import calls_others, is_engine, parameters
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import Problem, Severity
from diagnostics.lint.rule import Case, Question, RepositoryView, Rule, Scope
from diagnostics.lint.tensors import Tensor, steps, tensors

RULE = Rule(scope=Scope.REPOSITORY, severity=Severity.WARNING, question=Question.ENSEMBLE)

_ALIASES = {"input_id": "input_ids", "request_input_len": "input_lengths", "tokens_batch": "output_ids"}
_Output = tuple[str, str | None]
_COMMON = re.compile(r"_*(input|output|in|out|data|x|y|result|logits|image|images|text|prob|scores?)(_?\d*)_*")


def lint(see: RepositoryView) -> Iterator[Problem]:
    """Tell of each engine whose inputs another model writes and that nobody calls."""
    models = see.repository.models
    callers = [model for model in models.values() if model.ensemble or calls_others(model)]
    called = {step.model for model in callers if model.config for step in steps(model.config)}
    if any(not model.ensemble and not parameters(model) for model in callers):
        return
    called |= {text.value for model in callers for text in parameters(model).values()}
    writing = _writing(models.values())
    for model in models.values():
        if model.name in called or not is_engine(model):
            continue
        writers = _writers(model, writing)
        if writers and not called & set(writers):
            yield see.problem(
                f"{', '.join(writers)} writes what {model.name} reads, but nothing on the server joins them",
                at=model.place,
                help="join them by an ensemble",
            )


def _writing(models: Iterable[ModelFolder]) -> Mapping[_Output, list[str]]:
    """Return which models write an output of a name and a data type."""
    found: dict[_Output, list[str]] = {}
    for model in models:
        outputs = tensors(model.config, "output") if model.config and not model.ensemble else ()
        for written in {(_name(one), one.data_type) for one in outputs or ()}:
            found.setdefault(written, []).append(model.name)
    return found


def _writers(reader: ModelFolder, writing: Mapping[_Output, list[str]]) -> list[str]:
    """Return the models that write at least two inputs that another needs, of names that tell something."""
    if reader.config is None or reader.ensemble:
        return []
    needed = [one for one in tensors(reader.config, "input") or () if one.optional is False and _telling(one)]
    matched = Counter(name for one in needed for name in writing.get((_name(one), one.data_type), ()))
    return [name for name, number in sorted(matched.items()) if number >= 2 and name != reader.name]


def _telling(tensor: Tensor) -> bool:
    return _COMMON.fullmatch(tensor.name.lower()) is None


def _name(tensor: Tensor) -> str:
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
CASES = (
    Case(
        title="speaks when nothing joins a tokenizer and an engine",
        files=_STAGES,
        places=("models/tensorrt_llm/config.pbtxt:1:1",),
    ),
    Case(title="is silent when an ensemble does", files={**_STAGES, "models/all/config.pbtxt": _ENSEMBLE}),
    Case(title="is silent when a model does", files={**_STAGES, "models/bls/config.pbtxt": _CALLER}),
    Case(
        title="is silent about models that only share common names",
        files={
            "models/a/config.pbtxt": _PRE.replace("INPUT_ID", "INPUT0").replace("REQUEST_INPUT_LEN", "INPUT1"),
            "models/b/config.pbtxt": _LLM.replace("input_ids", "INPUT0").replace("input_lengths", "INPUT1"),
        },
    ),
)
