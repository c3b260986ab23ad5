"""The anatomy of a model that calls others from inside its execution: their time is taken out of its own.

A model that is called several times per request costs its request as many times what a visit costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.signals.traces import union_of
from diagnostics.window.visits import NANOSECOND, TracedRequest, TracedVisit

# Traces and counters cut a window's ends differently.
_AS_MANY = 1.1


@dataclass(slots=True)
class _Called:
    """What a called model took in all requests: seconds by phase, and how often it was visited."""

    cells: dict[Phase, float] = field(default_factory=dict)
    visits: int = 0


def with_called(item: Anatomy, requests: Sequence[TracedRequest]) -> Anatomy:
    """Return a directly called model's anatomy with the models that it calls as stages; itself where it calls none.

    Args:
        item: the anatomy, made from these requests' traces.
        requests: the traced requests that called the model.

    """
    whole = [request.root for request in requests if request.root.executed]
    called: dict[str, _Called] = {}
    inside = sum(_add(root, called) for root in whole) / len(whole) if whole else 0.0
    if not called:
        return item
    own = item.stages[0]
    left = max(own.cells.get(Phase.COMPUTE, 0.0) - inside, 0.0)
    caller = replace(own, cells={**own.cells, Phase.COMPUTE: left}, spread={})
    inner = (_stage(own.model, model, one, len(whole)) for model, one in sorted(called.items()))
    return replace(item, stages=(caller, *inner))


def _add(root: TracedVisit, called: dict[str, _Called]) -> float:
    """Add what a request's calls took, and return for how long some call was under way, in seconds.

    Of calls beside each other each gets its part of that time.
    """
    below = [visit for visit in root.below if visit.end > visit.start]
    inside = union_of((visit.start, visit.end) for visit in below) * NANOSECOND
    part = inside / sum(visit.seconds for visit in below) if below else 0.0
    for visit in below:
        one = called.setdefault(visit.model, _Called())
        one.visits += 1
        for phase, seconds in _phases(visit).items():
            one.cells[phase] = one.cells.get(phase, 0.0) + seconds * part
    return inside


def _phases(visit: TracedVisit) -> Mapping[Phase, float]:
    """Return a call's seconds by phase; what they leave of it is time between them."""
    found = {
        Phase.QUEUE: visit.queue_seconds or 0.0,
        Phase.INPUT: visit.input_seconds or 0.0,
        Phase.COMPUTE: visit.compute_seconds or 0.0,
        Phase.OUTPUT: visit.output_seconds or 0.0,
    }
    return {**found, Phase.GAP: max(visit.seconds - sum(found.values()), 0.0)}


def _stage(caller: str, model: str, called: _Called, requests: int) -> Stage:
    cells = {phase: seconds / requests for phase, seconds in called.cells.items()}
    return Stage(model=model, cells=cells, visits=called.visits / requests, caller=caller)


def entries_alone(items: Sequence[Anatomy]) -> list[Anatomy]:
    """Return the anatomies without those of models that get no more requests than other entries' calls bring."""
    brought: dict[str, float] = {}
    for item in items:
        for stage in item.stages[1:] if item.ensemble is None else ():
            brought[stage.model] = brought.get(stage.model, 0.0) + item.requests * stage.visits
    return [item for item in items if item.requests > _AS_MANY * brought.get(item.stages[0].model, 0.0)]
