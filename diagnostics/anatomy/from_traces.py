"""What shortening one stage can save of a request at most, where others take time beside it.

Branches of an ensemble run in parallel, and its requests wait for the last of them: what is off that path is free.
Counters know means only. The mean of the longest of several paths is no less than the longest path of the means
(Jensen's inequality), so without a stage's time a request takes on average no less than the longest path of the others'
means. What the mean exceeds that by is the most that any change of the stage can save.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from diagnostics.anatomy.cells import Anatomy, Phase, Spread, Stage
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import least_worthwhile
from diagnostics.signals.counting import ENOUGH_EVENTS, FEWEST_EVENTS
from diagnostics.signals.signal import Subject
from diagnostics.signals.triton import REQUESTS
from diagnostics.units import Unit
from diagnostics.window.graph import Ensemble, Path
from diagnostics.window.traces import NANOSECOND, TracedRequest, TracedVisit

# A member is called by others, too, if the ensemble makes less than this part of its requests: its mean is not that of
# the ensemble's own then. A window's ends cut less.
_ITS_OWN = 0.95


def bounded(evidence: Evidence, item: Anatomy, ensemble: Ensemble, counters: Anatomy) -> Anatomy:
    """Return an ensemble's anatomy with the most that each stage can cost.

    Args:
        evidence: what was read.
        item: the anatomy, from counters or traces; a stage's own cells are a bound where traces walked critical paths.
        ensemble: its graph.
        counters: the anatomy from counters. What an engine hides is what they leave: it is no time that was measured.

    """
    if not _forks(ensemble):
        return item
    alone = [stage for stage in counters.stages if _is_own(evidence, item, ensemble, stage.model)]
    queued = {stage.model: stage.cells.get(Phase.QUEUE, 0.0) / max(stage.visits, 1.0) for stage in alone}
    own = {stage.model: _shown(stage, item) / max(stage.visits, 1.0) for stage in alone}
    _, at_work = ensemble.longest_path({model: seconds - queued[model] for model, seconds in own.items()})
    mean = counters.mean_seconds
    return replace(
        item,
        stages=tuple(_bounded(mean, stage, ensemble, own) for stage in item.stages),
        most_queued_seconds=max(mean - at_work, 0.0),
    )


def _shown(stage: Stage, item: Anatomy) -> float:
    """Return the seconds of a stage by its row, and those in its engine that traces of the entry show."""
    rows = stage.seconds - stage.cells.get(Phase.ENGINE, 0.0)
    traced = item.stage(stage.model) if item.source == "traces" else None
    return rows + (traced.cells.get(Phase.ENGINE, 0.0) if traced else 0.0)


def _forks(ensemble: Ensemble) -> bool:
    """Whether some steps run beside each other: a chain has one path, as long as it has steps."""
    path, _ = ensemble.longest_path(dict.fromkeys(ensemble.models(), 1.0))
    return len(path) < len(ensemble.steps)


def _is_own(evidence: Evidence, item: Anatomy, ensemble: Ensemble, model: str) -> bool:
    calls = item.requests * sum(step.model == model for step in ensemble.steps)
    return calls >= _ITS_OWN * (evidence.read(REQUESTS, Subject(server=item.server, model=model)).value or 0.0)


def _bounded(mean: float, stage: Stage, ensemble: Ensemble, own: Mapping[str, float]) -> Stage:
    most = _most_seconds(mean, stage.model, ensemble, own)
    return replace(stage, most_seconds=most if stage.path_share is None else min(most, stage.seconds))


def _most_seconds(mean: float, model: str, ensemble: Ensemble, own: Mapping[str, float]) -> float:
    """Return the most that a stage can cost; infinite where another path is as long, to within what is worth a change.

    Of two such paths neither alone saves anything, and both together do.
    """
    _, longest = ensemble.longest_path(own)
    _, through = ensemble.longest_path(own, through=model)
    _, without = ensemble.longest_path({**own, model: 0.0})
    aside = max(longest - through, longest - without)
    return max(mean - without, 0.0) if aside >= least_worthwhile(mean) else inf


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
    frontends were traced, the duration of a request whose own frontend was not traced, as at a window's end, is
    unknown.
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
