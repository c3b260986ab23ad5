"""Each iteration of the engine fills its token budget, so prompts wait.

## Looks for
Requests wait inside while slots and KV cache have room. Nearly all iterations read prompts and hold about
`max_num_tokens` tokens each.

## Means
Prompts arrive faster than iterations of that size can read them. The time to the first token grows; generation
continues.

## Rules out
- Too few slots or too little KV cache (`engine-batch-limit`, `kv-cache-exhausted`): these hold requests back first.
- A budget that is never reached: a larger one, or chunked context, changes nothing.
- Prompts in only a few iterations.

## Do
1. Rebuild the engine with a larger `--max_num_tokens`, as far as activation memory allows. Iterations that read prompts
   get longer, and so do token gaps of running requests (`prefill-interference`).
2. If prompts are longer than the budget, turn on `enable_chunked_context`. The engine must be built with
   `--use_paged_context_fmha enable`.
3. Reuse KV blocks of shared prefixes (`enable_kv_cache_reuse`), so the engine reads fewer tokens. Prompts have to
   begin with what they share.

## Sources
TensorRT-LLM performance guide, tuning `max_num_tokens`. tensorrtllm_backend#331 (chunked context without effect: the
budget was not the limit). Little's law for the wait.
"""

from __future__ import annotations

from diagnostics import names
from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import (
    HELD_LIMITS,
    held_earlier,
    prefix_advice,
    restarted_with,
    wait_claim,
    with_advice,
)
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.engine import (
    ENGINE_KV_BLOCKED,
    ENGINE_MICRO_BATCHES,
    ENGINE_PEAK_FILL,
    ENGINE_SLOT_FILL,
    ENGINE_WAIT_SECONDS,
    ENGINE_WAITING,
    ENGINE_WAITING_SHARE,
)
from diagnostics.signals.engine_iterations import ENGINE_CONTEXT_SHARE, ENGINE_TOKEN_BUDGET, ENGINE_TOKENS_FILL
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

PREFILLS = Limit(
    value=0.75,
    unit=Unit.RATIO,
    because="an engine cut off by its budget has prompts left over for the next iteration, and so reads some in each",
)
FILLED = Limit(
    value=0.85,
    unit=Unit.RATIO,
    because="a prompt that does not fit leaves a part of the budget unused, on average half of a prompt; with chunked "
    "context nothing",
)
CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={
        **HELD_LIMITS,
        "engine_context_share": PREFILLS,
        "engine_token_budget_fill": FILLED,
    },
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE, Phase.ENGINE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if quiet := held_earlier(ledger, subject, 4):
        return quiet
    if not ledger.at_least(ENGINE_CONTEXT_SHARE, subject, PREFILLS):
        return Quiet(because="few iterations read prompts")
    if not ledger.at_least(ENGINE_TOKENS_FILL, subject, FILLED):
        return Quiet(because="iterations differ in size as prompts do: no budget cuts them off")
    return _finding(ledger, subject)


def _finding(ledger: Ledger, subject: Subject) -> Fires:
    wait, budget = ledger.need(ENGINE_WAIT_SECONDS, subject), ledger.need(ENGINE_TOKEN_BUDGET, subject)
    return Fires(
        summary=f"iterations of {subject.model}'s engine are filled to {budget:.0f} tokens: "
        f"{Unit.COUNT.show(ledger.need(ENGINE_WAITING, subject))} requests wait to be read, "
        f"{Unit.SECONDS.show(wait)} each",
        claims=(wait_claim(ledger, subject),),
        saved_seconds=wait,
        suggestion=with_advice(_suggestion(ledger, subject, round(budget)), prefix_advice(ledger, subject)),
    )


def _suggestion(ledger: Ledger, subject: Subject, budget: int) -> Suggestion:
    if kind := ledger.evidence.server_kind(subject):
        setting = Setting(path="engine.max_num_tokens", value=2 * budget)
        return restarted_with(kind, subject, kind.tokens, setting, budget)
    config, stated = ledger.evidence.config(subject), not ledger.evidence.read(ENGINE_TOKEN_BUDGET, subject).estimated
    text = (
        f"build the engine of {subject.model} with a larger max_num_tokens, or turn on chunked context for long prompts"
    )
    if config is None or config.backend not in names.ENGINE_BACKENDS_WITH_TIME or not stated:
        return Suggestion(text=text)
    setting = Setting(path="engine.max_num_tokens", value=2 * budget)
    return Suggestion(text=text, change=ConfigChange(model=subject.model or "", settings=(setting,)))


_CUT = {
    REQUESTS: 2000,
    REQUEST_SECONDS: 3.0,
    ENGINE_WAITING: 40,
    ENGINE_WAITING_SHARE: 1.0,
    ENGINE_WAIT_SECONDS: 1.2,
    ENGINE_MICRO_BATCHES: 1,
    ENGINE_SLOT_FILL: 0.4,
    ENGINE_PEAK_FILL: 0.5,
    ENGINE_KV_BLOCKED: 0,
    ENGINE_CONTEXT_SHARE: 1.0,
    ENGINE_TOKENS_FILL: 0.98,
    ENGINE_TOKEN_BUDGET: 8192,
}
CASES = (
    CheckCase.fires("when each iteration is full of prompts", _CUT),
    CheckCase.quiet("when few iterations read prompts", {**_CUT, ENGINE_CONTEXT_SHARE: 0.1}),
    CheckCase.quiet("when iterations differ in size", {**_CUT, ENGINE_TOKENS_FILL: 0.5}),
    CheckCase.quiet("when all slots are taken", {**_CUT, ENGINE_SLOT_FILL: 0.97, ENGINE_PEAK_FILL: 1.0}),
    CheckCase.quiet("when the KV cache is short", {**_CUT, ENGINE_KV_BLOCKED: 0.9}),
    CheckCase.unknown(
        "when tokens per iteration are not exported",
        {k: v for k, v in _CUT.items() if k not in (ENGINE_TOKENS_FILL, ENGINE_TOKEN_BUDGET)},
    ),
)
