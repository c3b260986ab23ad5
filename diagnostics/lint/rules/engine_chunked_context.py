"""An engine's prompts and its chunked context do not match.

## Looks for
`enable_chunked_context` is on for an engine built without `use_paged_context_fmha`. Or it is off although prompts may
be longer than `max_num_tokens`, the tokens of one step. Both limits come from the engine's `config.json`.

## Means
Without paged attention for the context, the engine cannot split prompts, so the model does not load. Without splitting,
a prompt longer than one step's tokens is refused. One that fills the step delays the tokens of all other requests.

## Do
Build the engine with `--use_paged_context_fmha enable`, and turn on `enable_chunked_context`.

## Sources
TensorRT-LLM, `model_instance_state.cc` (chunking "requires building the model with use_paged_context_fmha"). "Useful
Build-Time Flags" (`max_num_tokens`). tensorrtllm_backend#331 (no effect if no prompt exceeds the tokens).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.lint.engines import BuiltEngine, engine_of, flag, is_tensorrt_llm, parameters, unset
from diagnostics.lint.problem import LintProblem, LintSeverity
from diagnostics.lint.rule import ConfiguredModelView, LintTopic, Rule, RuleCase, RuleScope
from diagnostics.tuning.changes import ConfigChange, Setting

RULE = Rule(scope=RuleScope.MODEL, severity=LintSeverity.WARNING, question=LintTopic.ENGINE)

_KEY = "enable_chunked_context"


def lint(view: ConfiguredModelView) -> Iterator[LintProblem]:
    """Report prompts that are not cut, or cannot be."""
    engine = engine_of(view.model) if is_tensorrt_llm(view.model) else None
    if engine is None:
        return
    on = False if unset(view.model, _KEY) else flag(view.model, _KEY)
    paged = engine.value("build_config", "plugin_config", "use_paged_context_fmha")
    text = parameters(view.model).get(_KEY)
    place = text.place if text and text.written else view.model.place
    if on and paged is False:
        message = f"the engine cannot cut prompts: it was built without use_paged_context_fmha ({engine.path})"
        yield view.problem(message, at=place, severity=LintSeverity.ERROR)
    elif on is False and (longest := _longest_prompt(engine)):
        tokens = engine.integer("build_config", "max_num_tokens")
        setting = Setting(path=f"parameters.{_KEY}", value="true")
        yield view.problem(
            f"prompts may have {longest} tokens, a step {tokens}: longer ones are refused without {_KEY}",
            at=place,
            help=f"set {_KEY}" if paged else f"build with use_paged_context_fmha, then set {_KEY}",
            fix=ConfigChange(model=view.model.name, settings=(setting,)) if paged else None,
        )


def _longest_prompt(engine: BuiltEngine) -> int | None:
    """Return the longest prompt that the engine takes, where it is more than a step's tokens; else None."""
    tokens, longest = engine.integer("build_config", "max_num_tokens"), engine.integer("build_config", "max_input_len")
    return longest if tokens and longest and longest > tokens else None


def _files(chunked: str, paged: str, longest: int = 16384) -> dict[str, str]:
    plugins = f'"plugin_config": {{"use_paged_context_fmha": {paged}}}'
    built = f'"max_num_tokens": 8192, "max_input_len": {longest}, {plugins}'
    parameter = f'parameters {{ key: "{_KEY}" value {{ string_value: "{chunked}" }} }}\n'
    return {
        "models/llm/config.pbtxt": f'name: "llm"\nbackend: "tensorrtllm"\n{parameter}',
        "models/llm/1/config.json": f'{{"build_config": {{{built}}}}}',
    }


_AT = "models/llm/config.pbtxt:3:66"
CASES = (
    RuleCase.fires("when chunking is on, but the engine cannot", _files("true", "false"), _AT),
    RuleCase.fires("when chunking is off, and prompts are longer than a step", _files("false", "true"), _AT),
    RuleCase.quiet("when chunking is on", _files("true", "true")),
    RuleCase.quiet("when no prompt is longer than a step", _files("false", "true", longest=4096)),
    RuleCase.quiet("when the setting is a template", _files("${chunked}", "true")),
)
