"""An engine batches statically, or has a batching strategy that it does not know.

## Looks for
`gpt_model_type` of the TensorRT-LLM backend: `V1` is a warning. No value, or one other than `V1`, `inflight_batching`
and `inflight_fused_batching`, is an error.

## Means
With `V1`, a batch is formed once. Slots of short requests stay empty until the longest ends, and new requests wait for
the whole batch. Without a known value, the backend does not load the model.

## Do
Set `inflight_fused_batching`. The engine must be built with a paged KV cache and packed inputs, which is the default.

## Sources
TensorRT-LLM, `triton_backend/inflight_batcher_llm/src/model_instance_state.cc` (`getBatchingTypeFromParams`).
tensorrtllm_backend, `model_config.md` (`batching_strategy`).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import TENSORRT_LLM, parameters, unset
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)

_KEY = "gpt_model_type"
_IN_FLIGHT = ("inflight_fused_batching", "inflight_batching")
_STATIC = ("V1", "v1")


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report the strategy."""
    if view.model.backend != TENSORRT_LLM:
        return
    text = parameters(view.model).get(_KEY)
    if unset(view.model, _KEY):
        message, severity = f"{_KEY} is not set: the model does not load", LintSeverity.ERROR
    elif text is None or text.value is None or text.value in _IN_FLIGHT:
        return
    elif text.value in _STATIC:
        message, severity = f"{_KEY} {text.value}: requests wait for whole batches to end", LintSeverity.WARNING
    else:
        message, severity = f"{_KEY} {text.value!r} is unknown to the backend", LintSeverity.ERROR
    setting = Setting(path=f"parameters.{_KEY}", value=_IN_FLIGHT[0])
    yield view.problem(
        message,
        at=text.place if text and text.written else view.model.place,
        help=f"set {_IN_FLIGHT[0]}",
        fix=ConfigChange(model=view.model.name, settings=(setting,)),
        severity=severity,
    )


def _engine(value: str) -> dict[str, str]:
    parameter = f'parameters {{ key: "gpt_model_type" value {{ string_value: "{value}" }} }}\n'
    return {"models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\n{parameter}'}


_AT = "models/llm/config.pbtxt:3:58"
CASES = (
    RuleCase.fires("when batching is static", _engine("V1"), _AT),
    RuleCase.fires("when the strategy is unknown", _engine("inflight"), _AT),
    RuleCase.fires("without a strategy", {"models/llm/config.pbtxt": 'name: "llm"\nbackend: "tensorrtllm"\n'}, "1:1"),
    RuleCase.quiet("when batching is in flight", _engine("inflight_fused_batching")),
    RuleCase.quiet("when the strategy is a template", _engine("${batching_strategy}")),
)
