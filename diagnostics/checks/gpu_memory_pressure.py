"""The GPU's memory is full.

## Looks for
Models could not be loaded for lack of memory, by the reason in the repository index. Or a card's memory was in use to
the last few per cent, without an engine with its own pool.

## Means
The next load, reload, instance or larger batch may fail. A full reload needs the old and the new copy at once. Running
requests are not slower because of it.

## Rules out
- An engine's KV pool (TensorRT-LLM, vLLM): it takes what is left by design, so a full card is normal.
- Memory that stays in use after a load: frameworks keep their pools, which is no leak (see `memory-growth`).
- A fault of the card (`gpu-fault`).

## Do
1. Unload unused models (`curl -X POST HOST:8000/v2/repository/models/NAME/unload`). Reduce instances of models that
   load their weights once per instance.
2. Lower `kv_cache_free_gpu_mem_fraction` of an engine that loads first: it leaves nothing for later models.
3. Limit what may be loaded (`--model-load-gpu-limit`), or move a model to another card.

## Sources
server#6928 (each instance loads its own weights), server#7594. onnxruntime_backend#198 (pools that stay),
tensorrtllm_backend#274 (a second engine does not fit). Triton user guide, "Model management" (both copies resident).
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.checks.entries import name_of
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.gpu import GPU_MEMORY_FREE, GPU_MEMORY_USED
from diagnostics.signals.host import OUT_OF_MEMORY
from diagnostics.signals.signal import Scope, Subject
from diagnostics.units import Unit

REFUSED = Limit(value=1, unit=Unit.COUNT, because="a model that could not be loaded cannot serve requests")
FULL = Limit(
    value=0.97,
    unit=Unit.RATIO,
    because="the last 3 % of a card, some GiB at most, hold neither a second copy of a model nor a larger batch",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={"loads_out_of_memory": REFUSED, "gpu_memory_used_share": FULL},
    symptom="gpu-memory-full",
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one GPU."""
    used, refused = ledger.read(GPU_MEMORY_USED, subject), ledger.read(OUT_OF_MEMORY, subject)
    either = ledger.as_alternative()
    if refused.value is not None and either.compare(OUT_OF_MEMORY.name, refused, REFUSED) and _fullest(ledger, subject):
        full = "" if used.value is None else f"; the card was {Unit.RATIO.show(used.value)} full"
        return _fires(f"{refused.value:.0f} models could not be loaded for want of GPU memory{full}", Severity.WARNING)
    if not ledger.at_least(GPU_MEMORY_USED, subject, FULL):
        return Quiet(because="the card has memory left")
    models = [model for model in ledger.evidence.subjects(Scope.MODEL) if model.server == subject.server]
    if any(ledger.evidence.is_engine(model) for model in models):
        return Quiet(because="an engine's pool takes what is left, by design")
    left = Unit.BYTES.show(ledger.read(GPU_MEMORY_FREE, subject).value)
    return _fires(
        f"{Unit.RATIO.show(used.value)} of {name_of(subject)}'s memory is in use, {left} left: "
        "the next load or reload may fail",
        Severity.INFO,
    )


def _fullest(ledger: Ledger, subject: Subject) -> bool:
    """Return whether no other card of the server was fuller: the index does not say which one had no memory."""
    cards = [card for card in ledger.evidence.subjects(Scope.GPU) if card.server == subject.server]
    return subject == max(
        cards, key=lambda card: ledger.evidence.read(GPU_MEMORY_USED, card).value or 0.0, default=subject
    )


def _fires(summary: str, severity: Severity) -> Fires:
    return Fires(
        summary=summary,
        severity=severity,
        suggestion=Suggestion(
            text="unload unused models, run fewer instances of large models, or lower an engine's "
            "kv_cache_free_gpu_mem_fraction; limit loads with --model-load-gpu-limit (at a restart)",
            remedy=Remedy.MITIGATE,
        ),
    )


_FULL = {GPU_MEMORY_USED: 0.985, GPU_MEMORY_FREE: 1.2e9, OUT_OF_MEMORY: 0}
CASES = (
    CheckCase.fires("when a load failed for lack of memory", {**_FULL, GPU_MEMORY_USED: 0.8, OUT_OF_MEMORY: 1}),
    CheckCase.fires("for information when the card is full", _FULL),
    CheckCase.quiet("when memory is left", {**_FULL, GPU_MEMORY_USED: 0.6}),
    CheckCase.unknown("when memory was not measured", {OUT_OF_MEMORY: 0}),
)
