"""Requests reached a version that was loaded but not warm.

## Looks for
A version's first executions in the window took several times as long as its later ones. Counted: the execution and
queue time above the steady level until then. Or each new batch size was slow when it was first used since the load, at
two sizes or more.

## Means
The first execution of each instance pays for lazy initialisation: CUDA modules, autotuning, just-in-time compilation,
caches. Without `model_warmup` that covers the served batch sizes and shapes, users pay for it.

## Rules out
- A version that stays slow: its steady time is high (`version-regression`).
- Too few instances: utilization drops once the version is warm (`single-instance-serialization`).
- A warm-up: its samples count as executions, but no request waits for them.
- Executions that are as slow again and again, as after each pause: a warm-up does not help them. Each instance has one
  first execution of a batch size.
- Slow executions that are not the first of their batch size. The width of inputs is in no counter: a new width is not
  seen.

## Do
1. Add `model_warmup` for the served batch sizes and shapes, as the patch shows. It runs per instance before the version
   becomes READY.
2. Load it (`curl -X POST HOST:8000/v2/repository/models/NAME/load`). Until then, answer a few requests on every
   instance before users' traffic reaches a new version.

## Sources
Triton user guide, "Model warmup". server#3012 (the second request at a new batch size took 2.85 s). server#3473 (a
warm-up that did not cover the served shapes).
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.lifecycle import (
    COLD_AGAIN,
    COLD_COMPUTE_SECONDS,
    COLD_EXECUTION_SECONDS,
    COLD_MET,
    COLD_QUEUE_SECONDS,
    COLD_SLOWDOWN,
    STEADY_EXECUTION_SECONDS,
)
from diagnostics.signals.new_sizes import (
    LARGEST_NEW_SIZE,
    NEW_SIZE_COMPUTE_SECONDS,
    NEW_SIZE_QUEUE_SECONDS,
    NEW_SIZE_SECONDS,
    NEW_SIZE_SLOWDOWN,
    NEW_SIZES,
)
from diagnostics.signals.settings import MAX_BATCH_SIZE, WARMUPS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.tuning.changes import ConfigChange, Setting, WarmupChange
from diagnostics.units import Unit

SLOW = Limit(
    value=3.0,
    unit=Unit.COUNT,
    because="batch size and load move an execution by less than three times within one read; initialisation by tens",
)
AGAIN = Limit(
    value=2.0,
    unit=Unit.COUNT,
    because="each instance has one first execution of a batch size after a load; twice as many are no first ones, also "
    "where the first read held a part of one",
)
CHECK = Check(
    layer=Layer.SERVING,
    scope=Scope.MODEL,
    limits={"cold_slowdown": SLOW, "new_size_slowdown": SLOW, "cold_again": AGAIN},
    reach=frozenset({Phase.QUEUE, Phase.COMPUTE}),
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if (each := _at_each_size(ledger, subject)) is not None:
        return each
    if not ledger.at_least(COLD_SLOWDOWN, subject, SLOW):
        return Quiet(because="no first execution in the window was slow")
    if ledger.ruled_out(COLD_AGAIN, subject, AGAIN, above=True):
        return Quiet(because="executions are as slow again long after the first ones")
    if not ledger.need(COLD_MET, subject):
        return Quiet(because="no request waited for the slow executions: a warm-up's samples are counted too")
    compute, queue = ledger.read(COLD_COMPUTE_SECONDS, subject), ledger.read(COLD_QUEUE_SECONDS, subject)
    if not ledger.worthwhile("cold_seconds", subject, compute + queue):
        return Quiet(because="few requests met the slow executions")
    return Fires(
        summary=_summary(ledger, subject),
        claims=(
            Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=compute.value or 0.0),
            Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=queue.value or 0.0),
        ),
        saved_seconds=(compute + queue).value or 0.0,
        suggestion=_suggestion(ledger, subject),
    )


def _at_each_size(ledger: Ledger, subject: Subject) -> Fires | None:
    """Return the finding that batch sizes are slow when they are first used, long after the load; None if not so."""
    slower, start = ledger.evidence.read(NEW_SIZE_SLOWDOWN, subject), ledger.evidence.read(COLD_SLOWDOWN, subject)
    either = ledger.as_alternative()
    if (start.value or 0.0) >= SLOW.value or not slower.value:
        return None
    compute, queue = (ledger.evidence.read(one, subject) for one in (NEW_SIZE_COMPUTE_SECONDS, NEW_SIZE_QUEUE_SECONDS))
    if not either.compare(NEW_SIZE_SLOWDOWN.name, slower, SLOW) or not either.worthwhile(
        "new_size_excess", subject, compute + queue
    ):
        return None
    largest = round(ledger.need(LARGEST_NEW_SIZE, subject))
    change = ConfigChange(
        model=subject.model or "",
        settings=(Setting(path="model_warmup", value=WarmupChange(batch_sizes=(1, largest))),),
    )
    return Fires(
        summary=f"the first execution of each of {ledger.need(NEW_SIZES, subject):.0f} batch sizes of {subject.model} "
        f"took {Unit.SECONDS.show(ledger.need(NEW_SIZE_SECONDS, subject))}, later ones "
        f"{Unit.SECONDS.show(ledger.need(NEW_SIZE_SECONDS, subject) / (slower.value or 1.0))}: it compiles or tunes "
        "for each size when it is first used",
        claims=(
            Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=compute.value or 0.0),
            Claim(stage=subject.model or "", phase=Phase.QUEUE, seconds=queue.value or 0.0),
        ),
        saved_seconds=(compute + queue).value or 0.0,
        suggestion=Suggestion(
            text=f"warm {subject.model} up at each batch size that it serves (up to {largest} so far), or compile it "
            "once for a range of sizes",
            change=change,
        ),
    )


def _summary(ledger: Ledger, subject: Subject) -> str:
    warm = (
        "without model_warmup" if ledger.read(WARMUPS, subject).value == 0 else "and its model_warmup does not cover it"
    )
    return (
        f"first executions of {subject.model} version {subject.version} took "
        f"{Unit.SECONDS.show(ledger.need(COLD_EXECUTION_SECONDS, subject))}, later ones "
        f"{Unit.SECONDS.show(ledger.need(STEADY_EXECUTION_SECONDS, subject))}: it was loaded {warm}"
    )


def _suggestion(ledger: Ledger, subject: Subject) -> Suggestion:
    most = ledger.read(MAX_BATCH_SIZE, subject).value
    if most is None:
        return Suggestion(text=f"add model_warmup to {subject.model} for the batch sizes that it serves")
    sizes = tuple(sorted({1, round(most)}))
    setting = Setting(path="model_warmup", value=WarmupChange(batch_sizes=sizes))
    return Suggestion(
        text=f"warm {subject.model} up before it serves, at batch size {' and '.join(map(str, sizes))}, with typical "
        "input",
        change=ConfigChange(model=subject.model or "", settings=(setting,)),
    )


_COLD = {
    COLD_SLOWDOWN: 260,
    COLD_AGAIN: 0,
    COLD_MET: 1,
    COLD_EXECUTION_SECONDS: 1.87,
    STEADY_EXECUTION_SECONDS: 0.0071,
    COLD_COMPUTE_SECONDS: 0.1,
    COLD_QUEUE_SECONDS: 0.05,
    WARMUPS: 0,
    MAX_BATCH_SIZE: 16,
    REQUEST_SECONDS: 0.23,
}
CASES = (
    CheckCase.fires("when first executions were slow and requests waited for them", _COLD),
    CheckCase.fires("when a warm-up exists and does not cover what is served", {**_COLD, WARMUPS: 1}),
    CheckCase.quiet("when nothing was slow at first", {**_COLD, COLD_SLOWDOWN: 1.1}),
    CheckCase.quiet(
        "when hardly any request ran cold", {**_COLD, COLD_COMPUTE_SECONDS: 0.0004, COLD_QUEUE_SECONDS: 0.0}
    ),
    CheckCase.quiet("when only the warm-up was slow", {**_COLD, WARMUPS: 1, COLD_MET: 0}),
    CheckCase.unknown("when counters were read too rarely", {REQUEST_SECONDS: 0.2}),
)
