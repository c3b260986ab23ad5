"""Rows that may be ensembles' whose configuration was not read: who calls which model is not known then.

An ensemble's row hardly queues, holds its members' compute, and takes their queue and more beyond it (Triton core,
`ensemble_scheduler.cc`). A model whose configuration is there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from diagnostics.anatomy.cells import Anatomy, Phase, Stage
from diagnostics.anatomy.from_calls import (
    called_alone,
    entries_alone,
    from_outside,
    is_orchestrated,
    with_called,
    with_inner_calls,
)
from diagnostics.anatomy.from_traces import bounded, from_direct_calls, from_traces, slowest
from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import EntryPoint
from diagnostics.signals.engine_iterations import ENGINE_SECONDS
from diagnostics.signals.signal import Scope, Subject
from diagnostics.signals.triton import (
    COMPUTE_SECONDS,
    INPUT_SECONDS,
    OUTPUT_SECONDS,
    QUEUE_SECONDS,
    REQUEST_SECONDS,
    REQUESTS,
)

# Seconds: what an ensemble books as its queue is the call into its scheduler, microseconds.
_LONGEST_QUEUE = 1e-4
# Counters of a member and of its ensemble are read at once and move one after the other.
_AS_MUCH = 0.9
# Less than half of a model's requests are not what decides how long its callers wait.
_MOST_REQUESTS = 0.5


def likely_ensembles(anatomy: Sequence[Anatomy], evidence: Evidence) -> list[Anatomy]:
    """Return the entries that look like ensembles whose configuration was not read; nearly always none."""
    return [
        item
        for item in anatomy
        if item.ensemble is None
        and len(item.stages) == 1
        and evidence.config(Subject(server=item.server, model=item.stages[0].model)) is None
        and item.stages[0].cells.get(Phase.QUEUE, 0.0) <= _LONGEST_QUEUE
        and item.stages[0].cells.get(Phase.COMPUTE)
    ]


def calls_others(item: Anatomy, anatomy: Sequence[Anatomy]) -> bool:
    """Return whether an entry that looks like an ensemble can have sent most of another entry's requests."""
    return any(_may_call(item, one) for one in anatomy if one is not item and len(one.stages) == 1)


def caller_of(item: Anatomy, perhaps: Sequence[Anatomy]) -> Anatomy | None:
    """Return the longest of these that can have sent most of an entry's requests; None without any."""
    callers = (one for one in perhaps if one is not item and _may_call(one, item))
    return max(callers, key=lambda one: one.mean_seconds, default=None)


def longest_call(item: Anatomy, perhaps: Sequence[Anatomy]) -> float:
    """Return the mean seconds of the longest of these that can have sent most of an entry's requests; 0 without any."""
    caller = caller_of(item, perhaps)
    return caller.mean_seconds if caller else 0.0


def _may_call(caller: Anatomy, item: Anatomy) -> bool:
    around, stage = caller.stages[0].cells, item.stages[0].cells
    return (
        caller.server == item.server
        and caller.requests >= _MOST_REQUESTS * item.requests
        and around[Phase.COMPUTE] >= _AS_MUCH * stage.get(Phase.COMPUTE, 0.0)
        and caller.unattributed_seconds >= _AS_MUCH * stage.get(Phase.QUEUE, 0.0)
    )


_CELLS = (
    (Phase.QUEUE, QUEUE_SECONDS),
    (Phase.INPUT, INPUT_SECONDS),
    (Phase.COMPUTE, COMPUTE_SECONDS),
    (Phase.OUTPUT, OUTPUT_SECONDS),
)


def anatomies(evidence: Evidence) -> tuple[Anatomy, ...]:
    """Return the anatomy of every entry that completed requests, busiest first."""
    found: list[Anatomy] = []
    for server in evidence.subjects(Scope.SERVER):
        ensembles = [a for a in (_of_entry(evidence, e) for e in _ensembles(evidence, server)) if a]
        called = {stage.model for anatomy in ensembles for stage in anatomy.stages}
        models = {s.model for s in evidence.subjects(Scope.MODEL) if s.server == server.server and s.model}
        direct = [_of_model(evidence, server.server, model) for model in sorted(models - called)]
        items = [*ensembles, *entries_alone([a for a in direct if a])]
        found += _with_inner_calls(evidence, server.server, items)
    return tuple(sorted(found, key=lambda anatomy: -anatomy.requests * anatomy.mean_seconds))


def _with_inner_calls(evidence: Evidence, server: str, items: Sequence[Anatomy]) -> Sequence[Anatomy]:
    """Return anatomies in which what models call from inside is stages of theirs, and no entry of its own."""
    inner = evidence.inner_calls(server)
    entries = {item.ensemble: item for item in items if item.ensemble}

    def stages_of(name: str) -> Sequence[Stage]:
        item = entries.get(name)
        return item.stages if item else (_stage(evidence, server, name),)

    return [with_inner_calls(item, inner, stages_of) for item in called_alone(items, inner)]


def _of_entry(evidence: Evidence, subject: Subject) -> Anatomy | None:
    """Return the anatomy of an ensemble's requests, or of those that its clients put together from its members."""
    if subject.ensemble is not None and is_orchestrated(evidence, subject):
        ensemble = evidence.graph(subject.server).ensembles[subject.ensemble]
        return from_outside(evidence, subject, ensemble, lambda model: _of_model(evidence, subject.server, model))
    counters = _of_ensemble(evidence, subject)
    if counters is None or subject.ensemble is None:
        return None
    found = from_traces(counters, evidence.paths(subject), _hidden(evidence, counters))
    return bounded(evidence, found, evidence.graph(subject.server).ensembles[subject.ensemble], counters)


def tail(evidence: Evidence, item: Anatomy) -> Anatomy | None:
    """Return the anatomy of an ensemble's slowest requests; None where traces do not show them."""
    if item.ensemble is None:
        return None
    walked = evidence.paths(Subject(server=item.server, ensemble=item.ensemble))
    return slowest(item, walked, _hidden(evidence, item))


def _hidden(evidence: Evidence, item: Anatomy) -> frozenset[str]:
    """Return the members that go on working after their span has ended."""
    members = (stage.model for stage in item.stages)
    return frozenset(m for m in members if evidence.hides_time(Subject(server=item.server, model=m)))


def _ensembles(evidence: Evidence, server: Subject) -> Sequence[Subject]:
    return [subject for subject in evidence.subjects(Scope.ENSEMBLE) if subject.server == server.server]


def _of_ensemble(evidence: Evidence, subject: Subject) -> Anatomy | None:
    requests, mean = evidence.read(REQUESTS, subject), evidence.read(REQUEST_SECONDS, subject)
    if not requests.value or mean.value is None or subject.ensemble is None:
        return None
    ensemble = evidence.graph(subject.server).ensembles[subject.ensemble]
    stages = tuple(_stage(evidence, subject.server, model) for model in ensemble.models())
    per_visit = {stage.model: stage.seconds for stage in stages}
    path, on_path = ensemble.longest_path(per_visit)
    stages = tuple(_visited(stage, max(path.count(stage.model), 1)) for stage in stages)
    hidden = [model for model in ensemble.models() if evidence.hides_time(Subject(server=subject.server, model=model))]
    rest = max(mean.value - on_path, 0.0)
    if len(hidden) == 1:
        # What no row accounts for is the engine's: its branch is the longest, however short its row is.
        _, through = ensemble.longest_path(per_visit, through=hidden[0])
        stages, rest = _with_engine(stages, hidden[0], max(mean.value - through, 0.0)), 0.0
    return Anatomy(
        server=subject.server,
        ensemble=subject.ensemble,
        requests=requests.value,
        mean_seconds=mean.value,
        stages=stages,
        unattributed_seconds=rest,
        source=mean.source,
    )


def _of_model(evidence: Evidence, server: str, model: str) -> Anatomy | None:
    subject = Subject(server=server, model=model)
    requests, mean = evidence.read(REQUESTS, subject), evidence.read(REQUEST_SECONDS, subject)
    if not requests.value or mean.value is None:
        return None
    stage = _stage(evidence, server, model)
    counters = Anatomy(
        server=server,
        ensemble=None,
        requests=requests.value,
        mean_seconds=mean.value,
        stages=(stage,),
        unattributed_seconds=max(mean.value - stage.seconds, 0.0),
        source=mean.source,
    )
    hidden = evidence.hides_time(subject)
    found = from_direct_calls(counters, evidence.calls(subject), hidden)
    if found.source != counters.source:
        return with_called(found, evidence.calls(subject))
    return _with_own_account(evidence, subject, found) if hidden else found


def _with_own_account(evidence: Evidence, subject: Subject, item: Anatomy) -> Anatomy:
    """Return the anatomy with the time that the engine counts itself beyond its row; as it is where it counts none."""
    engine, stage = evidence.read(ENGINE_SECONDS, subject), item.stages[0]
    if engine.value is None:
        return item
    beyond = max(engine.value - stage.seconds, 0.0)
    filled = replace(stage, cells={**stage.cells, Phase.ENGINE: beyond})
    source = " and ".join(dict.fromkeys((item.source, engine.source)))
    return replace(item, stages=(filled,), mean_seconds=item.mean_seconds + beyond, source=source)


def _stage(evidence: Evidence, server: str, model: str) -> Stage:
    subject = Subject(server=server, model=model)
    cells = {phase: evidence.read(signal, subject).value or 0.0 for phase, signal in _CELLS}
    return Stage(model=model, cells=cells)


def _visited(stage: Stage, visits: int) -> Stage:
    """Return a stage that each request passes through so often; counters say what one visit takes."""
    return replace(stage, cells={phase: seconds * visits for phase, seconds in stage.cells.items()}, visits=visits)


def _with_engine(stages: tuple[Stage, ...], model: str, seconds: float) -> tuple[Stage, ...]:
    return tuple(
        replace(stage, cells={**stage.cells, Phase.ENGINE: seconds}) if stage.model == model else stage
        for stage in stages
    )


def entry_of(
    anatomy: Sequence[Anatomy], evidence: Evidence, subject: Subject, perhaps: Sequence[Anatomy] = ()
) -> EntryPoint | None:
    """Return the entry with the most time in it that a subject's requests belong to, None without traffic.

    Args:
        anatomy: the entries.
        evidence: what they were made from.
        subject: the subject.
        perhaps: those entries that may call the others: ensembles whose configuration was not read.

    """
    for candidate in anatomy:
        stage = candidate.stage(subject.model or "") if candidate.server == subject.server else None
        if stage is not None:
            return EntryPoint(
                ensemble=candidate.ensemble,
                mean_seconds=candidate.mean_seconds,
                weight=_weight(evidence, subject) * stage.visits,
                requests=candidate.requests,
                engine_seconds=_engine_seconds(evidence, subject, stage),
                behind_seconds=_behind_seconds(evidence, candidate, stage.model),
                perhaps_seconds=0.0 if candidate.ensemble else longest_call(candidate, perhaps),
                most_seconds=stage.most_seconds,
                most_queued_seconds=candidate.most_queued_seconds,
                caller=stage.caller,
            )
        # A card slows whoever uses it: the entry with the most time in it stands for them.
        of_card = subject.gpu is not None or candidate.ensemble == subject.ensemble
        if candidate.server == subject.server and subject.model is None and of_card:
            return EntryPoint(
                ensemble=candidate.ensemble,
                mean_seconds=candidate.mean_seconds,
                weight=1.0,
                requests=candidate.requests,
            )
    return None


def _behind_seconds(evidence: Evidence, item: Anatomy, model: str) -> float:
    ensemble = evidence.graph(item.server).ensembles.get(item.ensemble or "")
    behind = ensemble.behind(model) if ensemble else frozenset()
    return sum(stage.seconds for stage in item.stages if stage.model in behind)


def _engine_seconds(evidence: Evidence, subject: Subject, stage: Stage) -> float:
    if not evidence.is_engine(subject):
        return 0.0
    return stage.cells.get(Phase.COMPUTE if evidence.shows_engine_time(subject) else Phase.ENGINE, 0.0)


def _weight(evidence: Evidence, subject: Subject) -> float:
    own = evidence.read(REQUESTS, subject).value
    everything = evidence.read(REQUESTS, Subject(server=subject.server, model=subject.model)).value
    return own / everything if own is not None and everything else 1.0


__all__ = [
    "Anatomy",
    "Phase",
    "Stage",
    "anatomies",
    "caller_of",
    "calls_others",
    "entry_of",
    "likely_ensembles",
    "longest_call",
]
