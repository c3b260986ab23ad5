"""The latency breakdown of calls that no ensemble declares: inside models, by traces or counters, and from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.evidence.evidence import Evidence
from diagnostics.signals.counting import ENOUGH_EVENTS
from diagnostics.signals.inner_calls import InnerCall, InnerCalls
from diagnostics.signals.orchestration import (
    DIRECT_CALLS,
    ENSEMBLE_CALLS,
    HOP_SECONDS,
    LOCKSTEP,
    LOCKSTEP_GAP,
    MOST_USED,
    ORCHESTRATED_SECONDS,
    WRAPPED,
)
from diagnostics.signals.signal import Subject
from diagnostics.signals.traces import union_of
from diagnostics.window.graph import Ensemble
from diagnostics.window.traces import NANOSECOND, TracedRequest, TracedVisit

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


# Reads cut a window's ends differently for a caller and for what it calls.
StagesOf = Callable[[str], Sequence[Stage]]


def with_inner_calls(item: Anatomy, inner: Mapping[str, InnerCalls], stages_of: StagesOf) -> Anatomy:
    """Return an anatomy with what its models call as stages; as it is where traces show that, or nothing is called.

    Args:
        item: the anatomy of an entry.
        inner: what models call, by the caller.
        stages_of: gives the stages of one request to a model or ensemble.

    """
    if not inner or any(stage.caller for stage in item.stages):
        return item
    found = [one for stage in item.stages for one in _split(stage, inner, stages_of, frozenset())]
    return replace(item, stages=tuple(found)) if len(found) > len(item.stages) else item


def called_alone(items: Sequence[Anatomy], inner: Mapping[str, InnerCalls]) -> list[Anatomy]:
    """Return the anatomies without those of models and ensembles that get no more requests than callers send them."""
    brought: dict[str, float] = {}
    for one in inner.values():
        for call in one.calls:
            brought[call.model] = brought.get(call.model, 0.0) + one.requests * call.times
    return [item for item in items if item.requests > _AS_MANY * brought.get(_name(item), 0.0)]


def _name(item: Anatomy) -> str:
    return item.ensemble or item.stages[0].model


def _split(
    stage: Stage, inner: Mapping[str, InnerCalls], stages_of: StagesOf, above: frozenset[str]
) -> Iterator[Stage]:
    """Yield a stage with what is left of its own time, and behind it those that it calls, and those that these call."""
    calls = inner.get(stage.model)
    if calls is None or stage.model in above:
        yield stage
        return
    held = stage.cells.get(Phase.COMPUTE, 0.0)
    inside = held * min(calls.share, 1.0)
    yield replace(stage, cells={**stage.cells, Phase.COMPUTE: held - inside}, spread={})
    whole = sum(call.times * call.seconds for call in calls.calls if not call.beside)
    for call in calls.calls:
        seconds = 0.0 if call.beside or whole <= 0 else inside * call.times * call.seconds / whole
        for one in _called(stage, call, seconds, stages_of(call.model)):
            yield from _split(one, inner, stages_of, above | {stage.model})


def _called(caller: Stage, call: InnerCall, seconds: float, stages: Sequence[Stage]) -> Iterator[Stage]:
    """Yield the stages of a call, which takes `seconds` of each request of the entry in all."""
    whole = sum(stage.seconds for stage in stages)
    for stage in stages:
        cells = {phase: one * seconds / whole if whole > 0 else 0.0 for phase, one in stage.cells.items()}
        yield Stage(
            model=stage.model,
            cells=cells,
            visits=caller.visits * call.times * stage.visits,
            most_seconds=caller.most_seconds,
            caller=caller.model,
            beside=call.beside or caller.beside,
        )


Direct = Callable[[str], Anatomy | None]


def is_orchestrated(evidence: Evidence, subject: Subject) -> bool:
    """Return whether an ensemble's members are called in step from outside while it idles; unknown counts as no."""
    direct, own = evidence.read(DIRECT_CALLS, subject).value, evidence.read(ENSEMBLE_CALLS, subject).value
    if direct is None or own is None or direct < ENOUGH_EVENTS or own > MOST_USED * direct:
        return False
    apart, wrapped = evidence.read(LOCKSTEP_GAP, subject).value, evidence.read(WRAPPED, subject).value
    return apart is not None and apart <= LOCKSTEP and wrapped == 0


def from_outside(evidence: Evidence, subject: Subject, ensemble: Ensemble, direct: Direct) -> Anatomy | None:
    """Return the orchestrated requests' anatomy; None where some member's is unknown.

    Args:
        evidence: what was read.
        subject: the ensemble.
        ensemble: its graph.
        direct: returns the anatomy of a model that is called directly.

    """
    members = [direct(model) for model in ensemble.models()]
    known = [member for member in members if member is not None]
    calls = evidence.read(DIRECT_CALLS, subject).value
    if len(known) < len(members) or not known or calls is None:
        return None
    stages = tuple(_whole(member) for member in known)
    _, at_server = ensemble.longest_path({stage.model: stage.seconds for stage in stages})
    whole, hops = evidence.read(ORCHESTRATED_SECONDS, subject), evidence.read(HOP_SECONDS, subject)
    mean = whole.value if whole.value is not None else at_server + (hops.value or 0.0)
    sources = dict.fromkeys([member.source for member in known] + ([whole.source] if whole.value is not None else []))
    return Anatomy(
        server=subject.server,
        ensemble=subject.ensemble,
        requests=calls,
        mean_seconds=mean,
        stages=stages,
        unattributed_seconds=max(mean - at_server, 0.0),
        source=" and ".join(sorted(sources)),
        traced=min(member.traced for member in known),
    )


def _whole(member: Anatomy) -> Stage:
    """Return a member's stage with what its own call leaves unattributed counted to its output."""
    stage = member.stages[0]
    cells = dict(stage.cells)
    cells[Phase.OUTPUT] = cells.get(Phase.OUTPUT, 0.0) + member.unattributed_seconds
    return Stage(model=stage.model, cells=cells, spread=stage.spread)
