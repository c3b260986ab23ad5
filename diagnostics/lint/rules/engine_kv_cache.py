"""An engine's KV cache has an impossible size, or is capped.

## Looks for
`kv_cache_free_gpu_mem_fraction` outside of 0 to 1; `max_tokens_in_paged_kv_cache` next to it: the smaller of the two
applies. And such a cap below `max_seq_len` of the engine's `config.json`, if that file can be read.

## Means
The cache decides how many requests run at once. A cap keeps it small however much memory is free. Requests wait in the
engine while free blocks look sufficient. A cache smaller than the longest allowed sequence refuses the longest
requests.

## Do
Leave `max_tokens_in_paged_kv_cache` unset, and size the cache by the fraction. Set a cap only for tests.

## Sources
tensorrtllm_backend, `model_config.md`. server#7548 (a pool of 40 blocks on 80 GB: 5 of 99 requests ran).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import engine_of, is_tensorrt_llm, number, parameter, parameters
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)

_FRACTION = "kv_cache_free_gpu_mem_fraction"
_CAP = "max_tokens_in_paged_kv_cache"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the cache's size."""
    if not is_tensorrt_llm(view.model):
        return
    fraction, cap = number(view.model, _FRACTION), number(view.model, _CAP)
    written = parameters(view.model)
    if parameter(view.model, _FRACTION) and (fraction is None or not 0 < fraction <= 1):
        message = f"{_FRACTION} {written[_FRACTION].value!r} is no share of the free memory, from 0 to 1"
        yield view.problem(message, at=written[_FRACTION].place, severity=LintSeverity.ERROR)
    if cap is not None and cap > 0:
        yield from _cap(view, int(cap))


def _cap(view: ConfiguredModelView, cap: int) -> Iterator[LintProblem]:
    engine = engine_of(view.model)
    longest = engine.integer("build_config", "max_seq_len") if engine else None
    if longest and cap < longest:
        message = f"the cache holds {cap} tokens, but a sequence may have {longest}: the longest are refused"
    elif parameter(view.model, _FRACTION):
        message = f"the cache holds at most {cap} tokens, whatever {_FRACTION} allows: the smaller wins"
    else:
        return
    setting = Setting(path=f"parameters.{_CAP}", value=None)
    yield view.problem(
        message,
        at=parameters(view.model)[_CAP].place,
        help=f"remove {_CAP}, and size the cache by {_FRACTION}",
        fix=ConfigChange(model=view.model.name, settings=(setting,)),
    )


def _engine(**values: str) -> dict[str, str]:
    lines = "".join(
        f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n' for key, value in values.items()
    )
    return {"models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\n{lines}'}


_BUILT = {"models/llm/1/config.json": '{"build_config": {"max_seq_len": 4096}}'}
CASES = (
    RuleCase.fires("when the fraction is a percentage", _engine(kv_cache_free_gpu_mem_fraction="90"), "3:74"),
    RuleCase.fires(
        "when both sizes are set",
        _engine(kv_cache_free_gpu_mem_fraction="0.9", max_tokens_in_paged_kv_cache="2560"),
        "4:72",
    ),
    RuleCase.fires(
        "when the longest sequence does not fit",
        {**_engine(max_tokens_in_paged_kv_cache="2560"), **_BUILT},
        "models/llm/config.pbtxt:3:72",
    ),
    RuleCase.quiet(
        "when only the fraction is set", _engine(kv_cache_free_gpu_mem_fraction="0.9", max_tokens_in_paged_kv_cache="")
    ),
    RuleCase.quiet(
        "about templates", _engine(kv_cache_free_gpu_mem_fraction="0.9", max_tokens_in_paged_kv_cache="${tokens}")
    ),
)
