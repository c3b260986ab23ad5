"""The GPU's memory is full.

## Looks for
Models could not be loaded for lack of memory, by the reason in the repository index. Or models on a GPU fail requests
while nothing can be allocated on the card. Or a card's memory was in use to the last few per cent, without an engine
with its own pool.

## Means
The next load, reload, instance or larger batch may fail. A full reload needs the old and the new copy at once. Running
requests are not slower because of it. Executions that need more memory than the process already holds fail.

## Rules out
- An engine's KV pool (TensorRT-LLM, vLLM): it takes what is left by design, so a full card is normal. No pool takes
  the last few MiB.
- Failures of models on processors, and of requests that a queue refuses.
- Memory that stays in use after a load: frameworks keep their pools, which is no leak (see `memory-growth`).
- A fault of the card (`gpu-fault`).

## Do
1. If requests fail, find who holds the memory (`nvidia-smi --query-compute-apps=pid,used_memory --format=csv`), and
   stop or move it. Restart the server if an engine has ended.
2. Unload unused models (`curl -X POST HOST:8000/v2/repository/models/NAME/unload`). Reduce instances of models that
   load their weights once per instance.
3. Lower `kv_cache_free_gpu_mem_fraction` of an engine that loads first: it leaves nothing for later models.
4. Limit what may be loaded (`--model-load-gpu-limit`), or move a model to another card.

## Sources
server#6928 (each instance loads its own weights), server#7594. onnxruntime_backend#198 (pools that stay),
tensorrtllm_backend#274 (a second engine does not fit). Triton user guide, "Model management" (both copies resident).
NVIDIA, cuBLAS, `cublasSetWorkspace` (32 MiB on Hopper). PyTorch, `CUDACachingAllocator` (blocks of 20 MiB).
"""

from __future__ import annotations

from collections.abc import Sequence

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Remedy, Severity, Suggestion
from diagnostics.checks.entries import ENOUGH_FAILURES, FAILED_PART, failed_share, name_of
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.device import ON_GPU
from diagnostics.signals.flow import FAILED_REQUESTS, REJECTED_REQUESTS
from diagnostics.signals.gpu import GPU_MEMORY_FREE, GPU_MEMORY_USED
from diagnostics.signals.host import OUT_OF_MEMORY
from diagnostics.signals.neighbours import FOREIGN_GPU_MEMORY
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.units import Unit

REFUSED = Limit(value=1, unit=Unit.COUNT, because="a model that could not be loaded cannot serve requests")
FULL = Limit(
    value=0.97,
    unit=Unit.RATIO,
    because="the last 3 % of a card, some GiB at most, hold neither a second copy of a model nor a larger batch",
)
NO_ROOM = Limit(
    value=64 * 2**20,
    unit=Unit.BYTES,
    because="cuBLAS takes a workspace of 32 MiB on Hopper, and PyTorch blocks of 20 MiB: less than two of them is no "
    "room, and no engine's pool leaves so little by design",
)
CHECK = Check(
    layer=Layer.GPU,
    scope=Scope.GPU,
    limits={
        "loads_out_of_memory": REFUSED,
        "gpu_memory_used_share": FULL,
        "gpu_memory_free": NO_ROOM,
        "failed_requests": ENOUGH_FAILURES,
        "failed_share": FAILED_PART,
    },
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
    if failing := _requests_fail(ledger, subject, models):
        return failing
    if any(ledger.evidence.is_engine(model) for model in models):
        return Quiet(because="an engine's pool takes what is left, by design")
    left = Unit.BYTES.show(ledger.read(GPU_MEMORY_FREE, subject).value)
    return _fires(
        f"{Unit.RATIO.show(used.value)} of {name_of(subject)}'s memory is in use, {left} left: "
        "the next load or reload may fail",
        Severity.INFO,
    )


def _most_failing(ledger: Ledger, models: Sequence[Subject]) -> Subject | None:
    """Return the model on GPUs that fails most requests, those apart that its queue refuses; None where none does."""
    on_gpu = [model for model in models if ledger.evidence.read(ON_GPU, model).value]
    return max(
        (one for one in on_gpu if _failed(ledger, one).value),
        key=lambda one: _failed(ledger, one).value or 0.0,
        default=None,
    )


def _failed(ledger: Ledger, model: Subject) -> Reading:
    failed, refused = ledger.evidence.read(FAILED_REQUESTS, model), ledger.evidence.read(REJECTED_REQUESTS, model)
    return failed if refused.value is None else failed - refused


def _requests_fail(ledger: Ledger, subject: Subject, models: Sequence[Subject]) -> Fires | None:
    """Return the finding that a model fails requests for want of memory; None where too few fail, or memory is left."""
    failing, either = _most_failing(ledger, models), ledger.as_alternative()
    if failing is None or not _fullest(ledger, subject):
        return None
    failed = _failed(ledger, failing)
    of_all = failed_share(ledger, failing, failed)
    # Nothing shows that memory is the reason of each.
    share = Reading.of(of_all.value or 0.0, Unit.RATIO, of_all.source, estimated=True)
    if not either.at_most(GPU_MEMORY_FREE, subject, NO_ROOM):
        return None
    if not either.compare("failed_requests", failed, ENOUGH_FAILURES):
        return None
    if not either.compare("failed_share", share, FAILED_PART):
        return None
    left = Unit.BYTES.show(ledger.evidence.read(GPU_MEMORY_FREE, subject).value)
    foreign = ledger.read(FOREIGN_GPU_MEMORY, subject).value
    whose = f", and other processes hold {Unit.BYTES.show(foreign)} of it" if foreign else ""
    return Fires(
        summary=f"{name_of(subject)}'s memory is full ({left} left{whose}): {failing.model} fails "
        f"{Unit.RATIO.show(share.value)} of requests",
        failed_share=share.value or 0.0,
        suggestion=Suggestion(
            text=(
                "stop or move the other processes on the card"
                if foreign
                else "unload unused models or run fewer instances"
            )
            + f"; then load {failing.model} again, since what found no memory may have ended"
        ),
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
_FAILING = {
    **_FULL,
    GPU_MEMORY_USED: 0.9997,
    GPU_MEMORY_FREE: 4.3e7,
    ON_GPU: 1,
    FAILED_REQUESTS: 100,
    REJECTED_REQUESTS: 0,
    REQUESTS: 100,
}
CASES = (
    CheckCase.fires("when a load failed for lack of memory", {**_FULL, GPU_MEMORY_USED: 0.8, OUT_OF_MEMORY: 1}),
    CheckCase.fires("for information when the card is full", _FULL),
    CheckCase.fires("when requests fail on a card without room", _FAILING),
    CheckCase.quiet("when memory is left", {**_FULL, GPU_MEMORY_USED: 0.6}),
    CheckCase.unknown("when memory was not measured", {OUT_OF_MEMORY: 0}),
)
