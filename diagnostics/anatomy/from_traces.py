"""The cells of a request's time from traces: what the counters cannot say, where both agree on what they can.

Traces see one request at a time: medians and tails, gaps between stages, what an engine does behind its span, and which
of several branches a request waited for. They are a sample; so they replace the counters only when there are enough
of them, and when their means are the counters' within what sampling explains.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.anatomy.cells import Anatomy, Phase, Spread, Stage
from diagnostics.signals.counting import ENOUGH_EVENTS, FEWEST_EVENTS
from diagnostics.units import Unit
from diagnostics.window.paths import Path
from diagnostics.window.visits import NANOSECOND, TracedRequest, TracedVisit

# Means of thirty samples and more are within three standard errors in all but 3 of 1000 cases.
_STANDARD_ERRORS = 3.0
# Requests at the window's ends are in one of both only; and no difference below a millisecond changes a diagnosis.
_EDGE_SHARE = 0.05
_EDGE_SECONDS = 0.001
# The tail is one in so many: a tenth of the fewest traces would be three requests, of fifty it is five.
SLOWEST_PART = 10


@dataclass(slots=True)
class _Samples:
    """What traced requests spent in one stage: per phase and request on the critical path, and in all."""

    on_path: dict[Phase, float] = field(default_factory=dict)
    each: dict[Phase, list[float]] = field(default_factory=dict)
    passes: int = 0
    gap: float = 0.0


def from_traces(counters: Anatomy, walked: Sequence[tuple[TracedRequest, Path]], hidden: frozenset[str]) -> Anatomy:
    """Return an ensemble's anatomy from its traces, or the counters' with the reason why they were kept.

    Args:
        counters: the anatomy from counters.
        walked: the traced requests in which every stage was seen, with their critical paths.
        hidden: members that go on working after their span has ended.

    """
    if not walked:
        return counters
    if len(walked) < ENOUGH_EVENTS:
        return replace(counters, traced=len(walked))
    doubt = _doubt(counters, [request.root.seconds for request, _ in walked])
    if doubt:
        return replace(counters, traced=len(walked), doubt=doubt)
    return _of(counters, walked, hidden)


def slowest(item: Anatomy, walked: Sequence[tuple[TracedRequest, Path]], hidden: frozenset[str]) -> Anatomy | None:
    """Return the anatomy of the slowest tenth of an ensemble's traced requests; None where the traces were not used.

    Args:
        item: the anatomy of all of them.
        walked: as for `from_traces`.
        hidden: as for `from_traces`.

    """
    count = len(walked) // SLOWEST_PART
    if item.source != "traces" or count < FEWEST_EVENTS:
        return None
    ordered = sorted(walked, key=lambda one: one[0].root.seconds)
    return _of(item, ordered[-count:], hidden)


def _of(item: Anatomy, walked: Sequence[tuple[TracedRequest, Path]], hidden: frozenset[str]) -> Anatomy:
    samples = {stage.model: _Samples() for stage in item.stages}
    for request, path in walked:
        _add(request, path, samples, hidden)
    wholes = [request.root.seconds for request, _ in walked]
    stages = tuple(
        replace(_stage(stage.model, samples[stage.model], len(walked)), visits=stage.visits) for stage in item.stages
    )
    mean = sum(wholes) / len(wholes)
    return replace(
        item,
        mean_seconds=mean,
        stages=stages,
        unattributed_seconds=max(mean - sum(stage.seconds for stage in stages), 0.0),
        source="traces",
        traced=len(walked),
        spread=spread_of(wholes),
    )


def from_direct_calls(counters: Anatomy, requests: Sequence[TracedRequest], hidden: bool) -> Anatomy:
    """Return the anatomy of a model that is called directly, from traces, or the counters' with the reason.

    An engine that answers from its own thread is done when the frontend sends the answer, long after its span: where
    frontends were traced, a request whose own was not, as at a window's end, does not tell how long it took.
    """
    whole = [request for request in requests if request.root.executed]
    if hidden:
        whole = [request for request in whole if request.front is not None] or whole
    if len(whole) < ENOUGH_EVENTS:
        return replace(counters, traced=len(whole))
    doubt = _doubt(counters, [request.root.seconds for request in whole])
    if doubt:
        return replace(counters, traced=len(whole), doubt=doubt)
    samples = _Samples(passes=len(whole))
    for request in whole:
        phases = _phases(request.root)
        if hidden and request.front is not None:
            answered = request.front.sending or request.front.end
            phases[Phase.ENGINE] = max(answered - request.root.end, 0) * NANOSECOND
        for phase, seconds in phases.items():
            samples.on_path[phase] = samples.on_path.get(phase, 0.0) + seconds
            samples.each.setdefault(phase, []).append(seconds)
    engines = samples.each.get(Phase.ENGINE, [0.0] * len(whole))
    totals = [request.root.seconds + engine for request, engine in zip(whole, engines, strict=True)]
    stage = _stage(counters.stages[0].model, samples, len(whole))
    mean = sum(totals) / len(totals)
    return replace(
        counters,
        mean_seconds=mean,
        stages=(stage,),
        unattributed_seconds=max(mean - stage.seconds, 0.0),
        source="traces",
        traced=len(whole),
        spread=spread_of(totals),
    )


def _add(request: TracedRequest, path: Path, samples: Mapping[str, _Samples], hidden: frozenset[str]) -> None:
    engines = {model: path.gap_seconds({model}.__contains__) for model in hidden}
    spent = {(model, Phase.ENGINE): seconds for model, seconds in engines.items()}
    for visit in request.root.below:
        for phase, seconds in _phases(visit).items():
            spent[visit.model, phase] = spent.get((visit.model, phase), 0.0) + seconds
    for (model, phase), seconds in spent.items():
        if model in samples:
            samples[model].each.setdefault(phase, []).append(seconds)
    _add_path(path, samples, engines)


def _add_path(path: Path, samples: Mapping[str, _Samples], engines: Mapping[str, float]) -> None:
    steps = [step for step in path.steps if step.visit.model in samples]
    for step in steps:
        stage = samples[step.visit.model]
        stage.gap += 0.0 if step.after in engines else step.gap * NANOSECOND
        for phase, seconds in _phases(step.visit).items():
            stage.on_path[phase] = stage.on_path.get(phase, 0.0) + seconds
    for model in {step.visit.model for step in steps}:
        samples[model].passes += 1
        if model in engines:
            samples[model].on_path[Phase.ENGINE] = samples[model].on_path.get(Phase.ENGINE, 0.0) + engines[model]


def _phases(visit: TracedVisit) -> dict[Phase, float]:
    return {
        Phase.QUEUE: visit.queue_seconds or 0.0,
        Phase.INPUT: visit.input_seconds or 0.0,
        Phase.COMPUTE: visit.compute_seconds or 0.0,
        Phase.OUTPUT: visit.output_seconds or 0.0,
    }


def _stage(model: str, samples: _Samples, requests: int) -> Stage:
    return Stage(
        model=model,
        cells={phase: seconds / requests for phase, seconds in samples.on_path.items()},
        spread={phase: spread_of(values) for phase, values in samples.each.items()},
        path_share=samples.passes / requests,
        gap_seconds=samples.gap / requests,
    )


def spread_of(values: Sequence[float]) -> Spread:
    """Return median and 95th percentile, by nearest rank; the values must not be empty."""
    ordered = sorted(values)
    return Spread(*(ordered[min(math.ceil(share * len(ordered)), len(ordered)) - 1] for share in (0.5, 0.95)))


def _doubt(counters: Anatomy, wholes: Sequence[float]) -> str:
    """Return how far the traced mean is from the counted one, where sampling does not explain it; else nothing."""
    mean = sum(wholes) / len(wholes)
    variance = sum((value - mean) ** 2 for value in wholes) / (len(wholes) - 1)
    room = _STANDARD_ERRORS * math.sqrt(variance / len(wholes)) + _EDGE_SHARE * counters.mean_seconds + _EDGE_SECONDS
    if abs(mean - counters.mean_seconds) <= room:
        return ""
    show = Unit.SECONDS.show
    return (
        f"{len(wholes)} traced requests take {show(mean)} on average, while {counters.source} says "
        f"{show(counters.mean_seconds)} for all {counters.requests:.0f}"
    )
