"""The engine's own work is most of the time, and nothing waits.

## Looks for
Requests of an ensemble or model spend most of their time in the engine, and none waits inside. The time for which the
engine schedules them explains that time.

## Means
The model is slow, not the service: prompts and tokens times the length of an iteration. That is normal for an LLM. No
setting of Triton helps: use a faster engine, or fewer tokens. This is reported for information, whatever the latency.

## Rules out
- Requests that wait inside for slots or KV cache (`engine-batch-limit`, `kv-cache-exhausted`).
- Time outside the engine, such as a slow answer path. The engine then schedules few requests for their time: check the
  serving layer.
- Bursts: the engine idles at most reads.

## Do
1. If latency meets its objective, do nothing.
2. Otherwise make the engine faster: quantization (FP8), speculative decoding, more tensor parallelism, a newer
   TensorRT-LLM. Tensor parallelism helps if the link between GPUs allows it. Or request fewer tokens.
3. Do not add instances of the engine: they share its GPU.

## Sources
server#6863 (a TensorRT-LLM row has batch 1 and no queue, and is healthy), TensorRT-LLM performance guide. Little's law:
scheduled requests ÷ request rate is the time the engine works on a request.
"""

from __future__ import annotations

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.checks.engine_gates import WAITS
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.engine import ENGINE_WAITING, ENGINE_WAITING_SHARE, ENGINE_WORK_SECONDS
from diagnostics.signals.engine_iterations import ENGINE_ITERATION_SECONDS, ENGINE_SECONDS
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, REQUEST_SECONDS, REQUESTS
from diagnostics.units import Unit

MOST = Limit(value=0.5, unit=Unit.RATIO, because="what takes under half of a request does not bound it")
EXPLAINED = Limit(
    value=0.7,
    unit=Unit.RATIO,
    because="requests are seen scheduled only at the reads, which leaves a mean of some twenty uncertain by a third",
)
CHECK = Check(
    layer=Layer.ENGINE,
    scope=Scope.MODEL,
    limits={"engine_share": MOST, "engine_waiting_share": WAITS, "engine_work_share": EXPLAINED},
    severity=Severity.INFO,
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.evidence.is_engine(subject):
        return Quiet(because="not an engine")
    entry = ledger.entry_of(subject)
    if not ledger.read(REQUESTS, subject).value or entry is None or entry.mean_seconds <= 0:
        return Quiet(because="no traffic")
    if entry.engine_seconds <= 0:
        ledger.need(ENGINE_SECONDS, subject)
        return Quiet(because="the engine takes no time beyond its row's")
    engine = Reading.of(entry.engine_seconds, Unit.SECONDS, "anatomy")
    share = engine / Reading.of(entry.mean_seconds, Unit.SECONDS, "anatomy")
    if not ledger.compare("engine_share", share, MOST):
        return Quiet(because="most of a request's time is spent elsewhere")
    if ledger.as_rival().at_least(ENGINE_WAITING_SHARE, subject, WAITS):
        return Quiet(because="requests wait inside the engine")
    visits = Reading.of(max(entry.weight, 1.0), Unit.RATIO, "anatomy")
    work = ledger.evidence.read(ENGINE_WORK_SECONDS, subject) * visits
    if not ledger.compare("engine_work_share", work / engine, EXPLAINED):
        return Quiet(because="the engine is not seen to work on requests for as long as they take")
    return _finding(ledger, subject, entry.engine_seconds, share.value or 0.0)


def _finding(ledger: Ledger, subject: Subject, seconds: float, share: float) -> Fires:
    kind = ledger.evidence.server_kind(subject)
    iteration = ledger.read(ENGINE_ITERATION_SECONDS, subject).value
    steps = f", iterations of about {Unit.SECONDS.show(iteration)} each" if iteration else ""
    return Fires(
        summary=f"the engine of {subject.model} works {Unit.SECONDS.show(seconds)} on a request, "
        f"{Unit.RATIO.show(share)} of its time{steps}; hardly anything waits inside",
        suggestion=Suggestion(
            text=f"if that misses an objective: a faster engine of {subject.model} (quantization, speculative "
            f"decoding, tensor parallelism) or fewer tokens; no setting of {kind.restarted if kind else 'Triton'} helps"
        ),
    )


_BUSY = {
    REQUESTS: 700,
    REQUEST_SECONDS: 0.122,
    COMPUTE_SECONDS: 0.106,
    ENGINE_WAITING: 0,
    ENGINE_WAITING_SHARE: 0,
    ENGINE_WORK_SECONDS: 0.108,
    ENGINE_ITERATION_SECONDS: 0.0065,
}
CASES = (
    CheckCase.fires("when the engine works on requests and none waits", _BUSY),
    CheckCase.quiet("when requests wait inside", {**_BUSY, ENGINE_WAITING: 12, ENGINE_WAITING_SHARE: 0.9}),
    CheckCase.quiet(
        "when the time is spent outside the engine",
        {**_BUSY, REQUEST_SECONDS: 0.5, COMPUTE_SECONDS: 0.4, ENGINE_WORK_SECONDS: 0.05},
    ),
    CheckCase.quiet("when the engine is a small part of the request", {**_BUSY, REQUEST_SECONDS: 0.9}),
    CheckCase.unknown(
        "when the engine's queue is not exported", {k: v for k, v in _BUSY.items() if k is not ENGINE_WAITING_SHARE}
    ),
)
