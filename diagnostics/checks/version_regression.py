"""A new version executes slower than the previous one.

## Looks for
Two versions of a model in one window, or one version before and after a reload, differ in execution time. Only warm
executions of the same batch sizes are compared.

## Means
The deployment is slower: another engine build, precision, shape or preprocessing, or a backend that changed with the
image. Load is not the cause: executions with the same number of items are compared.

## Rules out
- A cold version: its first executions are left out (`cold-start`).
- Larger batches: only sizes that both versions executed count.
- More load: queue time is not compared.

## Do
1. Pin the previous version, as the patch shows. Then run `curl -X POST HOST:8000/v2/repository/models/NAME/load`. It is
   applied in place while the files still exist.
2. Compare how both were built: engine build options and precision, image and driver, shapes of inputs.
3. Measure the new version alone at one batch size before it serves again.

## Sources
server#5817 (the same model slower after an image change: look at the infer step at deploy). Triton user guide,
"Model repository", version policy.
"""

from __future__ import annotations

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Check, CheckCase, Claim, Fires, Layer, Quiet, Remedy, Suggestion
from diagnostics.evidence.ledger import Ledger, Limit
from diagnostics.signals.signal import Reading, Scope, Subject
from diagnostics.signals.triton import REQUEST_SECONDS
from diagnostics.signals.versions import VERSION_BEFORE, VERSION_EXTRA_SECONDS, VERSION_SINCE, VERSION_SLOWDOWN
from diagnostics.tuning.changes import ConfigChange, Setting
from diagnostics.units import Unit

SLOWER = Limit(
    value=1.2,
    unit=Unit.COUNT,
    because="clocks and placement move the same kernels by a tenth from load to load; twice that is a change",
)
CHECK = Check(
    layer=Layer.SERVING, scope=Scope.MODEL, limits={"version_slowdown": SLOWER}, reach=frozenset({Phase.COMPUTE})
)


def diagnose(ledger: Ledger, subject: Subject) -> Fires | Quiet:
    """Decide for one model version."""
    if not ledger.at_least(VERSION_SLOWDOWN, subject, SLOWER):
        return Quiet(because="there is no version before it to compare with, or it is as fast")
    extra = ledger.read(VERSION_EXTRA_SECONDS, subject)
    if not ledger.worthwhile("version_extra", subject, extra, _since(ledger, subject)):
        return Quiet(because="the difference is small against what a request takes")
    return _finding(ledger, subject, extra.value or 0.0)


def _since(ledger: Ledger, subject: Subject) -> Reading:
    """Return how many times as much a request meets the version since it serves; unknown counts as all along."""
    since = ledger.evidence.read(VERSION_SINCE, subject)
    return since if since.value is not None else Reading.of(1.0, Unit.RATIO, "stated")


def _finding(ledger: Ledger, subject: Subject, extra: float) -> Fires:
    before = round(ledger.read(VERSION_BEFORE, subject).value or 0.0)
    other = f"version {before}" if before else "the same version before it was loaded anew"
    slowdown = ledger.need(VERSION_SLOWDOWN, subject)
    return Fires(
        summary=f"{subject.model} version {subject.version} executes {Unit.SECONDS.show(extra)} longer than {other} "
        f"at the same batch size ({slowdown:.2g} times)",
        claims=(Claim(stage=subject.model or "", phase=Phase.COMPUTE, seconds=extra),),
        saved_seconds=extra,
        suggestion=_suggestion(subject, before),
    )


def _suggestion(subject: Subject, before: int) -> Suggestion:
    if not before:
        return Suggestion(
            text=f"load the files of {subject.model} from before the reload, and compare how both were built",
            remedy=Remedy.MITIGATE,
            relieves=True,
        )
    return Suggestion(
        text=f"serve version {before} of {subject.model} again until the new one is as fast",
        remedy=Remedy.MITIGATE,
        relieves=True,
        change=ConfigChange(
            model=subject.model or "", settings=(Setting(path="version_policy", value=f"specific:{before}"),)
        ),
    )


_SLOWER = {VERSION_SLOWDOWN: 2.1, VERSION_EXTRA_SECONDS: 0.04, VERSION_BEFORE: 1, REQUEST_SECONDS: 0.15}
CASES = (
    CheckCase.fires("when the new version takes twice as long", _SLOWER),
    CheckCase.fires("when the same version is slower after a reload", {**_SLOWER, VERSION_BEFORE: 0}),
    CheckCase.quiet("when the version is as fast", {**_SLOWER, VERSION_SLOWDOWN: 1.05}),
    CheckCase.quiet("when the stage is a small part of the request", {**_SLOWER, VERSION_EXTRA_SECONDS: 0.001}),
    CheckCase.unknown("without counters", {REQUEST_SECONDS: 0.15}),
)
