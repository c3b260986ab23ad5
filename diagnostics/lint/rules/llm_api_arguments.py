"""Arguments of TensorRT-LLM's LLM API are missing, out of range, misspelled or without effect.

## Looks for
The newest version that has a `model.yaml` next to `model.py` is read:
- No `model`.
- A size or a parallelism that is not a whole number of at least 1.
- `free_gpu_memory_fraction` outside of 0 to 1, or next to `max_tokens`: the smaller of the two applies.
- `build_config` with the `pytorch` backend, which builds no engine.
- A file that is no YAML mapping.
- Unknown keys, reported once per file.

## Means
The engine does not start, and the model does not load. Or its KV cache and batches differ from what was intended. Keys
depend on the release of TensorRT-LLM, so unknown keys are only `info`.

## Do
Correct the value. Size the cache by `kv_cache_config.free_gpu_memory_fraction` alone. Set `max_batch_size` and
`max_num_tokens` at the top level.

## Sources
TensorRT-LLM, `triton_backend/all_models/llmapi`. "LLM API Reference" (`LlmArgs`, `KvCacheConfig`): of `max_tokens` and
`free_gpu_memory_fraction`, the one that gives less memory applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from diagnostics.lint.engines import KNOWN, LlmArguments, llm_arguments
from diagnostics.lint.problem import LintProblem, LintSeverity, SourceLocation
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.spelling import close_to

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.ERROR, question=LintTopic.ENGINE)

_COUNTS = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "max_batch_size",
    "max_num_tokens",
    "max_seq_len",
    "max_input_len",
    "max_beam_width",
)
# A file of people has a few; likeness is costly to look up.
_LOOKED_UP = 20
_CACHE, _FRACTION, _CAP = "kv_cache_config", "free_gpu_memory_fraction", "max_tokens"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report each argument."""
    written = llm_arguments(view.model)
    if written is None:
        return
    if written.trouble:
        severity = LintSeverity.INFO if "not linted" in written.trouble else None
        yield view.problem(written.trouble, at=written.file.place(0), severity=severity)
        return
    if not written.tree.get("model"):
        yield view.problem("no model is named: the engine does not start", at=written.file.place(0))
    for key in _COUNTS:
        yield from _count(view, key, written.tree.get(key), written.at(key))
    yield from _cache(view, written)
    yield from _built(view, written)
    yield from _unknown(view, written)


def _count(view: ConfiguredModelView, key: str, value: Any, place: SourceLocation) -> Iterator[LintProblem]:
    if value is None or _open(value):
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        yield view.problem(f"{key} is a whole number from 1, not {_shown(value)}: the engine does not start", at=place)


def _cache(view: ConfiguredModelView, written: LlmArguments) -> Iterator[LintProblem]:
    cache = written.section(_CACHE)
    fraction, place = cache.get(_FRACTION), written.at(_CACHE, _FRACTION)
    if fraction is not None and not _open(fraction) and not (_is_number(fraction) and 0 < fraction <= 1):
        yield view.problem(f"{_FRACTION} is a share of the free memory, not {_shown(fraction)}", at=place)
    elif fraction is not None and cache.get(_CAP) is not None:
        message = f"the cache holds at most {_shown(cache[_CAP])} tokens, whatever {_FRACTION} allows: the smaller wins"
        place, help_ = written.at(_CACHE, _CAP), f"remove {_CAP}, and size the cache by {_FRACTION}"
        yield view.problem(message, at=place, help=help_, severity=LintSeverity.WARNING)


def _built(view: ConfiguredModelView, written: LlmArguments) -> Iterator[LintProblem]:
    if written.tree.get("backend") == "pytorch" and written.section("build_config"):
        message = "build_config is for engines that are built, and the backend pytorch builds none"
        help_ = "set max_batch_size, max_num_tokens and max_seq_len at the top level"
        yield view.problem(message, at=written.at("build_config"), help=help_, severity=LintSeverity.INFO)


def _unknown(view: ConfiguredModelView, written: LlmArguments) -> Iterator[LintProblem]:
    unknown = [str(key) for key in written.tree if str(key) not in KNOWN]
    if unknown:
        near = {key: close_to(key, KNOWN, most=1, least=0.8) for key in unknown[:_LOOKED_UP]}
        meant = [f"{found[0]} for {_shown(key)}" for key, found in near.items() if found]
        yield view.problem(
            f"not known here as arguments of the LLM API: {', '.join(map(_shown, unknown))}",
            at=written.at(unknown[0]),
            help=f"did you mean {' and '.join(meant)}?" if meant else "ask the reference of your TensorRT-LLM release",
            severity=LintSeverity.WARNING if meant else LintSeverity.INFO,
        )


def _open(value: Any) -> bool:
    return isinstance(value, str) and any(sign in value for sign in ("${", "{{"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    return "a list or a mapping" if isinstance(value, list | Mapping) else repr(value)[:40]


def _model(text: str) -> dict[str, str]:
    return {
        "models/llm/config.pbtxt": 'backend: "python"\n',
        "models/llm/1/model.py": "",
        "models/llm/1/model.yaml": text,
    }


_GOOD = """model: TinyLlama/TinyLlama-1.1B-Chat-v1.0
backend: pytorch
tensor_parallel_size: 2
kv_cache_config:
  free_gpu_memory_fraction: 0.9
triton_config:
  max_batch_size: 0
  decoupled: false
"""
_PATH = "models/llm/1/model.yaml"
CASES = (
    RuleCase.fires(
        "when no model is named, and ranks are 0",
        _model(_GOOD.replace("model: TinyLlama/TinyLlama-1.1B-Chat-v1.0\n", "").replace("2", "0")),
        f"{_PATH}:1:1",
        f"{_PATH}:2:1",
    ),
    RuleCase.fires("when the fraction is a percentage", _model(_GOOD.replace("0.9", "90")), f"{_PATH}:5:3"),
    RuleCase.fires(
        "when the cache has two sizes",
        _model(_GOOD.replace("triton_config", "  max_tokens: 4096\ntriton_config")),
        f"{_PATH}:6:3",
    ),
    RuleCase.fires(
        "for options of a build that the backend does not do",
        _model(_GOOD + "build_config: { max_batch_size: 4 }\n"),
        f"{_PATH}:9:1",
    ),
    RuleCase.fires("once for unknown keys", _model(_GOOD + "tensor_paralel_size: 2\nnewest: true\n"), f"{_PATH}:9:1"),
    RuleCase.fires("when the file is not YAML", _model("model: ["), f"{_PATH}:1:1"),
    RuleCase.quiet("about valid arguments", _model(_GOOD)),
    RuleCase.quiet("about templates", _model(_GOOD.replace("2", '"${tp}"').replace("0.9", '"${fraction}"'))),
)
