"""The tokenizer, the engine and the detokenizer do not belong together.

## Looks for
Steps of one ensemble have different `tokenizer_dir` values. If the files can be read, two more:
- The tokenizer's `vocab_size` is above the engine's.
- The engine's vocabulary lacks an end id of the tokenizer's folder (`config.json`, `generation_config.json`).

## Means
Token ids have no meaning without their vocabulary: another tokenizer reads other words from them. If the engine never
emits the end id, every answer runs to its maximum length.

## Do
Let all steps read one folder that is released with the engine. Build the engine from the same checkpoint.

## Sources
tensorrtllm_backend, `model_config.md` (`tokenizer_dir` of `preprocessing` and `postprocessing`). TensorRT-LLM,
`config.json` (`pretrained_config.vocab_size`). Transformers, `config.json` (`vocab_size`, `eos_token_id`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from diagnostics.lint.block import Text
from diagnostics.lint.engines import engine_of, is_tensorrt_llm, parameters
from diagnostics.lint.model_folder import ModelFolder
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.lint.tensors import steps

RULE = Rule(scope=RuleScope.ENSEMBLE, severity=LintSeverity.WARNING, question=LintTopic.FITS)

_KEY = "tokenizer_dir"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report tokenizers that differ from each other, or from the engine."""
    members = [view.repository.models.get(step.model or "") for step in steps(view.config)]
    known = [member for member in members if member is not None and member.config is not None]
    folders = [(member, text) for member in known if (text := parameters(member).get(_KEY)) and text.value]
    for member, text in folders[1:]:
        first, other = folders[0]
        if _plain(text) != _plain(other):
            message = (
                f"{member.name} reads {text.value}, but {first.name} {other.value}: one writes ids, one reads them"
            )
            yield view.problem(message, at=text.place, help="let both read one folder")
    engine = next((member for member in known if is_tensorrt_llm(member)), None)
    if engine is not None and folders:
        yield from _against_engine(view, *folders[0], engine)


def _against_engine(
    view: ConfiguredModelView, member: ModelFolder, text: Text, engine: ModelFolder
) -> Iterator[LintProblem]:
    built = engine_of(engine)
    vocabulary = built.integer("pretrained_config", "vocab_size") if built else None
    if vocabulary is None:
        return
    model = member.json(f"{text.value}/config.json") or {}
    size = model.get("vocab_size")
    if isinstance(size, int) and size > vocabulary:
        message = f"the tokenizer knows {size} ids, the engine {vocabulary} ({built.path if built else ''})"
        yield view.problem(message, at=text.place, help="build the engine from the checkpoint of this tokenizer")
    ends = (*_ids(model), *_ids(member.json(f"{text.value}/generation_config.json") or {}))
    beyond = sorted({end for end in ends if end >= vocabulary})
    if beyond:
        message = f"end id {beyond[0]} is not one of the engine's {vocabulary}: it never ends an answer"
        yield view.problem(message, at=text.place)


def _ids(tree: Any) -> tuple[int, ...]:
    ids = tree.get("eos_token_id")
    listed = ids if isinstance(ids, list) else [ids]
    return tuple(one for one in listed if isinstance(one, int))


def _plain(text: Text) -> str:
    return (text.value or "").rstrip("/")


_STEPS = 'step { model_name: "pre" } step { model_name: "llm" } step { model_name: "post" }'
_ALL = {"models/all/config.pbtxt": f'platform: "ensemble"\nensemble_scheduling {{ {_STEPS} }}\n'}


def _stage(name: str, folder: str) -> dict[str, str]:
    parameter = f'parameters {{ key: "{_KEY}" value {{ string_value: "{folder}" }} }}\n'
    return {f"models/{name}/config.pbtxt": f'backend: "python"\n{parameter}'}


def _engine(vocabulary: int) -> dict[str, str]:
    return {
        "models/llm/config.pbtxt": 'backend: "tensorrtllm"\n',
        "models/llm/1/config.json": f'{{"build_config": {{}}, "pretrained_config": {{"vocab_size": {vocabulary}}}}}',
        "models/pre/tokenizer/config.json": '{"vocab_size": 32000, "eos_token_id": 31999}',
    }


CASES = (
    RuleCase.fires(
        "when the stages read two folders",
        {**_ALL, **_stage("pre", "/models/v1/tokenizer"), **_stage("post", "/models/v2/tokenizer")},
        "models/post/config.pbtxt:2:57",
    ),
    RuleCase.fires(
        "when the engine knows fewer ids, and not the end",
        {**_ALL, **_stage("pre", "tokenizer"), **_engine(1000)},
        "models/pre/config.pbtxt:2:57",
        "models/pre/config.pbtxt:2:57",
    ),
    RuleCase.quiet(
        "when the engine's vocabulary is padded",
        {**_ALL, **_stage("pre", "tokenizer"), **_stage("post", "tokenizer/"), **_engine(32064)},
    ),
    RuleCase.quiet(
        "when folders are templates",
        {**_ALL, **_stage("pre", "${tokenizer_dir}"), **_stage("post", "/models/tokenizer")},
    ),
)
