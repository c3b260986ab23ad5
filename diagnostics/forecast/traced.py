"""What traces say of single requests: when they came, how long executions took, what engines hid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import fmean, pvariance

from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.subject import Subject
from diagnostics.signals.traces import ALL_TRACED
from diagnostics.signals.triton import REQUESTS
from diagnostics.window.visits import NANOSECOND, TracedVisit


def visits(evidence: Evidence, server: str, model: str, ensembles: Collection[str]) -> Sequence[TracedVisit]:
    """Return the traced visits to a model that computed: its own callers' and those of these ensembles."""
    direct = [request.root for request in evidence.calls(Subject(server=server, model=model))]
    members = [
        visit
        for name in ensembles
        for request, _ in evidence.paths(Subject(server=server, ensemble=name))
        for visit in request.root.below
        if visit.model == model
    ]
    return [visit for visit in (*direct, *members) if visit.executed]


def execution_scv(found: Sequence[TracedVisit]) -> float | None:
    """Return the squared coefficient of variation of executions' lengths; None with too few to tell."""
    lengths = [(visit.computed or 0) - (visit.began or 0) for visit in found]
    if len(lengths) < ENOUGH_EVENTS or fmean(lengths) <= 0:
        return None
    return scv(lengths)


def scv(values: Sequence[float]) -> float:
    """Return variance ÷ squared mean; 0 where the mean is."""
    mean = fmean(values) if values else 0.0
    return pvariance(values, mean) / mean**2 if mean > 0 else 0.0


def hidden_seconds(evidence: Evidence, entry: Subject, model: str) -> Sequence[float]:
    """Return the time that each traced request of an entry spent in an engine behind its visit to this model."""
    if entry.ensemble is not None:
        return [path.gap_seconds({model}.__contains__) for _, path in evidence.paths(entry)]
    found = []
    for request in evidence.calls(entry):
        if request.front is not None and request.root.executed:
            answered = request.front.sending or request.front.end
            found.append(max(answered - request.root.end, 0) * NANOSECOND)
    return found


def arrival_times(evidence: Evidence, entry: Subject) -> Sequence[float] | None:
    """Return when each request of an entry arrived, Unix seconds ascending; None unless all of them were traced."""
    everything = evidence.read(REQUESTS, entry).value
    model = entry.ensemble or entry.model
    found = [request.root.start * NANOSECOND for request in evidence.calls(Subject(server=entry.server, model=model))]
    if not everything or len(found) < max(ALL_TRACED * everything, ENOUGH_EVENTS):
        return None
    return sorted(found)
