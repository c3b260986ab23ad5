"""Running requests stall whenever the engine reads another request's prompt.

## Looks for
Iterations that read prompts while generating take longer than those that only generate. The lost share of a request's
engine time is measured. Without iteration times: at least a third of the reads show iterations with long prompts.
Iterations get fewer whenever requests join.

## Means
Prompts and generation share iterations, so each token of a running request waits for another's prompt. Long prompts
cause gaps in streams that users notice, at any load.

## Rules out
- Requests that wait before they start (`engine-batch-limit`, `kv-cache-exhausted`, `engine-token-budget`).
- Iterations that are long with and without prompts: that is the model itself (`engine-bound`).
- Short prompts: an iteration of a few hundred tokens takes as long as one of a single token.
- Long answers: joining requests may add only keys and values, which later iterations read.

## Do
1. Turn on `enable_chunked_context`, so prompts are read in parts. The engine must be built with
   `--use_paged_context_fmha enable`.
2. Rebuild the engine with a smaller `--max_num_tokens`: parts get shorter, but the time to the first token grows.
3. Reuse KV blocks of shared prefixes: prompts have to begin with what they share. Or run prompts and generation on
   different engines (disaggregated serving).

## Sources
TensorRT-LLM, "Chunked context" and "Disaggregated serving". tensorrtllm_backend#331: chunked context has no effect on
short prompts.
"""

from __future__ import annotations

from msgspec.structs import replace

from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.checks.engine_gates import engine_phase, parameter, parameter_change, prefix_advice, with_advice
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import Ledger, Limit, Undecided
from diagnostics.signals.engine import ENGINE_PREFIX_HITS, ENGINE_WAITING, ENGINE_WORK_SECONDS
from diagnostics.signals.engine_iterations import (
    ENGINE_CONTEXT_SHARE,
    ENGINE_PREFILL_STALL,
    ENGINE_PROMPT_TOKENS,
    LONG_PROMPTS,
)
from diagnostics.signals.signal import Missing, Reading, Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

CHUNKED = "enable_chunked_context"
OFTEN = Limit(
    value=1 / 3,
    unit=Unit.RATIO,
    because="prompts in fewer iterations would have to lengthen each of them by half to cost 15 % of a request",
)
CHECK = Check(layer=Layer.ENGINE, scope=Scope.MODEL, limits={"engine_context_share": OFTEN})


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.evidence.is_engine(subject):
        return Quiet(because="not an engine")
    if not ledger.read(REQUESTS, subject).value:
        return Quiet(because="no traffic")
    if ledger.evidence.read(ENGINE_WAITING, subject).value is None:
        return Quiet(because="the engine exports no gauges")
    stall = ledger.evidence.read(ENGINE_PREFILL_STALL, subject)
    work = ledger.evidence.read(ENGINE_WORK_SECONDS, subject)
    lost = (stall * replace(work, low=work.value, high=work.value)).with_unit(Unit.SECONDS)
    if stall.value is None or stall.estimated:
        if quiet := _not_timed(ledger, subject, stall, lost):
            return quiet
    elif not ledger.worthwhile("prefill_stall_seconds", subject, lost):
        return Quiet(because="prompts hardly lengthen the iterations that they share")
    return _finding(ledger, subject, stall, lost.value or 0.0)


def _not_timed(ledger: Ledger, subject: Subject, stall: Reading, lost: Reading) -> Quiet | None:
    """Return why prompts do not matter where iterations are not timed; None where even the least they cost does."""
    often = ledger.at_least(ENGINE_CONTEXT_SHARE, subject, OFTEN)
    if not often and not may_read_long_prompts(ledger.evidence, subject):
        return Quiet(because="few iterations read prompts, or short ones")
    if lost.low is None or lost.high is None:
        raise Undecided(ENGINE_PREFILL_STALL.name, stall.missing or Missing.NOT_EXPORTED)
    if not ledger.worthwhile("most_prefill_stall", subject, replace(lost, value=lost.high)):
        return Quiet(because="requests that join hardly lengthen iterations")
    if not ledger.worthwhile("least_prefill_stall", subject, replace(lost, value=lost.low)) or not often:
        raise Undecided(ENGINE_PREFILL_STALL.name, Missing.TOO_FEW_EVENTS)
    return None


def may_read_long_prompts(evidence: Evidence, subject: Subject) -> bool:
    """Return whether an engine's reads allow that a third of its iterations read prompts that are long."""
    share, prompt = evidence.read(ENGINE_CONTEXT_SHARE, subject), evidence.read(ENGINE_PROMPT_TOKENS, subject)
    return (share.high or 0.0) >= OFTEN.value and (prompt.value or 0.0) >= LONG_PROMPTS


def _finding(ledger: Ledger, subject: Subject, stall: Reading, lost: float) -> Fires:
    about = "about " if stall.estimated else ""
    return Fires(
        summary=f"prompts of others stall running requests of {subject.model}'s engine for {about}"
        f"{Unit.SECONDS.show(lost)} each, {Unit.RATIO.show(stall.value)} of its time",
        claims=(Claim(stage=subject.model or "", phase=engine_phase(ledger, subject), seconds=lost),),
        saved_seconds=lost,
        suggestion=with_advice(_suggestion(ledger, subject), prefix_advice(ledger, subject)),
    )


def _suggestion(ledger: Ledger, subject: Subject) -> Suggestion:
    if (kind := ledger.evidence.server_kind(subject)) and kind.tokens:
        text = f"restart {kind.restarted} for {subject.model} with a smaller {kind.tokens}"
        return Suggestion(text=f"{text}, or serve prompts from another engine")
    if parameter(ledger, subject, CHUNKED).lower() == "false":
        return Suggestion(
            text=f"turn on {CHUNKED} of {subject.model} (the engine needs paged-context FMHA); unload the model first",
            change=parameter_change(subject, CHUNKED, "true"),
        )
    return Suggestion(
        text=f"let {subject.model}'s engine read prompts in smaller parts (chunked context, a smaller "
        "max_num_tokens), or serve prompts from another engine"
    )


_STALLING = {
    REQUESTS: 800,
    REQUEST_SECONDS: 4.0,
    ENGINE_WAITING: 0,
    ENGINE_WORK_SECONDS: 3.6,
    ENGINE_CONTEXT_SHARE: 0.4,
    ENGINE_PREFILL_STALL: 0.45,
}
CASES = (
    CheckCase.fires("when prompts double the length of iterations", _STALLING),
    CheckCase.fires("when the prefix cache holds nothing of the prompts", {**_STALLING, ENGINE_PREFIX_HITS: 0.0}),
    CheckCase.quiet("when prompts hardly lengthen iterations", {**_STALLING, ENGINE_PREFILL_STALL: 0.03}),
    CheckCase.quiet(
        "when prompts are rare and iterations not timed",
        {k: v for k, v in {**_STALLING, ENGINE_CONTEXT_SHARE: 0.1}.items() if k is not ENGINE_PREFILL_STALL},
    ),
    CheckCase.unknown(
        "when prompts are frequent and iterations not timed",
        {k: v for k, v in _STALLING.items() if k is not ENGINE_PREFILL_STALL},
    ),
)
