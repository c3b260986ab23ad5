"""Data that separates causes is missing.

## Looks for
For every model with traffic: its instance count and settings, its instance utilization, its device's headroom. For the
server: counters that stand still or are off while requests flow. Also engine rows that stay at zero under a busy
ensemble.

## Means
The diagnosis is weaker than it could be: a cause may be missing, or reported with less confidence. This is never why
requests are slow.

## Rules out
- Idle models: they have nothing to show.
- Engines' rows: their utilization and queue mean nothing, so nothing is lost without them.

## Do
1. Switch on what the list of blind spots names. Statistics and configuration cost one HTTP read per interval; GPU
   metrics cost one DCGM sample every two seconds. Latency summaries are not needed, and they reduce the throughput of
   small, busy models.

## Sources
Triton user guide, "Metrics". server#8125 (counters frozen with `counter_latencies=false`), tensorrtllm_backend#49
(engine rows all zero before 23.12). model_analyzer#862 (GPU metrics gone under MIG or a second DCGM agent).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnostics.checks.check import Check, CheckCase, Fires, Layer, Quiet, Severity, Suggestion
from diagnostics.evidence.ledger import Ledger
from diagnostics.signals.device import DEVICE_HEADROOM
from diagnostics.signals.executions import INSTANCE_BUSY_SHARE
from diagnostics.signals.settings import INSTANCES
from diagnostics.signals.signal import Missing, Scope, Signal, Subject
from diagnostics.signals.triton import QUEUE_SECONDS, REQUESTS

CHECK = Check(layer=Layer.TELEMETRY, scope=Scope.SERVER, limits={})
_WANTED = (QUEUE_SECONDS, INSTANCES, INSTANCE_BUSY_SHARE, DEVICE_HEADROOM)
_HIDDEN = (Missing.NOT_EXPORTED, Missing.DISABLED, Missing.UNSUPPORTED_VERSION, Missing.CONFLICTING)


def diagnose(ledger: Ledger, on: Subject) -> Fires | Quiet:
    """Decide for one server."""
    models = [subject for subject in ledger.evidence.subjects(Scope.MODEL) if subject.server == on.server]
    silent = sorted({f"{model.model}" for model in models if _silent_under_load(ledger, model)})
    if silent:
        return _fires(f"counters of {', '.join(silent)} stand still while requests flow through", Severity.WARNING)
    hidden: dict[str, list[str]] = {}
    for model in models:
        for signal in _hidden(ledger, model):
            hidden.setdefault(signal.name, []).append(model.model or "")
    if not hidden:
        return Quiet(because="everything that decides between causes could be read")
    listed = "; ".join(f"{name} of {', '.join(sorted(set(models)))}" for name, models in sorted(hidden.items()))
    return _fires(f"could not be read: {listed}", Severity.INFO)


def _fires(summary: str, severity: Severity) -> Fires:
    return Fires(
        summary=summary,
        severity=severity,
        suggestion=Suggestion(text="switch on what the list of blind spots names"),
    )


def _hidden(ledger: Ledger, model: Subject) -> Iterator[Signal]:
    if not ledger.evidence.read(REQUESTS, model).value or ledger.evidence.is_engine(model):
        return
    for signal in _WANTED:
        if ledger.read(signal, model).missing in _HIDDEN:
            yield signal


def _silent_under_load(ledger: Ledger, model: Subject) -> bool:
    """A member without a single request although an ensemble that calls it completed some."""
    if ledger.evidence.read(REQUESTS, model).value != 0:
        return False
    if ledger.evidence.read(REQUESTS, Subject(server=model.server, model=model.model)).value:
        return False  # another version of it works
    callers = ledger.evidence.graph(model.server).callers(model.model or "")
    ensembles = (Subject(server=model.server, ensemble=caller.name) for caller in callers)
    return any((ledger.evidence.read(REQUESTS, ensemble).value or 0) > 0 for ensemble in ensembles)


_SEEN = {REQUESTS: 1000, QUEUE_SECONDS: 0.001, INSTANCES: 1, INSTANCE_BUSY_SHARE: 0.2, DEVICE_HEADROOM: 0.5}
CASES = (
    CheckCase.fires(
        "when a busy model's device was not measured", {k: v for k, v in _SEEN.items() if k is not DEVICE_HEADROOM}
    ),
    CheckCase.fires("when statistics and configuration are closed", {REQUESTS: 1000, QUEUE_SECONDS: 0.001}),
    CheckCase.quiet("when all deciding data was read", _SEEN),
    CheckCase.quiet("about an idle model", {REQUESTS: 0}),
)
