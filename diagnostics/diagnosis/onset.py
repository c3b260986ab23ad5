"""When a finding's fault began, if that is inside the window, and what happened then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from diagnostics.anatomy.anatomy import Phase
from diagnostics.checks.check import Claim, Fires
from diagnostics.diagnosis.run import Result
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.series import Sample, instants, series
from diagnostics.signals.flow import FAILED_REQUESTS
from diagnostics.signals.signal import Signal, Subject
from diagnostics.signals.triton import COMPUTE_SECONDS, INPUT_SECONDS, OUTPUT_SECONDS, QUEUE_SECONDS, REQUEST_SECONDS
from diagnostics.window.lifecycle import Happened, ServerChange
from diagnostics.window.onset import FEWEST_OUTSIDE, FEWEST_STEPS, rise

_SIGNALS = {
    Phase.QUEUE: QUEUE_SECONDS,
    Phase.INPUT: INPUT_SECONDS,
    Phase.COMPUTE: COMPUTE_SECONDS,
    Phase.OUTPUT: OUTPUT_SECONDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Onset:
    """When it began, Unix seconds, and the change of the deployment at that time, if there was one."""

    at: float
    change: ServerChange | None = None


def onset_of(result: Result, fires: Fires) -> Onset | None:
    """Return when what a finding claims most of rose; None when it was so from the start, or nothing is certain."""
    evidence, server = result.ledger.evidence, result.subject.server
    if fires.began is not None:
        return Onset(at=fires.began)
    at = instants(evidence.moments(server))
    if len(at) <= FEWEST_STEPS + FEWEST_OUTSIDE:
        return None
    signal, on = _course(result, fires)
    samples = [s for s in series(evidence, signal, on, at) if s.reading.value is not None]
    found = rise([sample.reading.value or 0.0 for sample in samples])
    if found is None:
        return None
    change = _change(evidence, on, samples, found.first)
    return Onset(at=change.since if change else samples[found.first].start, change=change)


def _course(result: Result, fires: Fires) -> tuple[Signal, Subject]:
    """Return the quantity to follow: the largest claim's phase at its stage, failures, else the entry's latency."""
    subject, entry = result.subject, result.entry
    if fires.failed_share > 0:
        return FAILED_REQUESTS, subject
    largest = max(fires.claims, key=lambda claim: claim.seconds, default=None)
    if largest is not None and largest.seconds > 0 and largest.phase in _SIGNALS:
        return _SIGNALS[largest.phase], _stage(subject, largest)
    if entry is not None and entry.ensemble is not None:
        return REQUEST_SECONDS, Subject(server=subject.server, ensemble=entry.ensemble)
    return REQUEST_SECONDS, subject


def _stage(subject: Subject, claim: Claim) -> Subject:
    """Return the claimed stage with all its versions: a new one has no course before it was there."""
    return Subject(server=subject.server, model=claim.stage or subject.model)


_CAUSES = (Happened.LOADED, Happened.RELOADED, Happened.RESTARTED, Happened.CONFIGURED, Happened.LOAD_FAILED)


def _change(evidence: Evidence, on: Subject, samples: Sequence[Sample], first: int) -> ServerChange | None:
    """Return the change of this model or of the whole server next to the rise: within the step of it or before it."""
    start, end = samples[first - 1].start, samples[first].end
    near = [
        change
        for change in evidence.changes(on.server)
        if change.kind in _CAUSES and change.model in ("", on.model) and change.since <= end and change.at >= start
    ]
    return near[0] if near else None
