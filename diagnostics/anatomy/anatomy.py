"""The cells of a request's mean time, from counters.

An ensemble's row holds its members' compute, and none of their queue, so it is never summed with them: its mean time
is set against the longest path through its members, and what is left over is the engine's hidden time where exactly
one member answers from its own thread, else unattributed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from diagnostics.evidence.evidence import Evidence
from diagnostics.evidence.ledger import Entry
from diagnostics.signals.subject import Scope, Subject
from diagnostics.signals.triton import (
    COMPUTE_SECONDS,
    INPUT_SECONDS,
    OUTPUT_SECONDS,
    QUEUE_SECONDS,
    REQUEST_SECONDS,
    REQUESTS,
)
from diagnostics.window.graph import Ensemble


class Phase(StrEnum):
    """What a request does in a stage. `gap` is time between stages that no member accounts for."""

    QUEUE = "queue"
    INPUT = "input"
    COMPUTE = "compute"
    OUTPUT = "output"
    ENGINE = "engine"
    GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Mean seconds that a request of the entry spends in one model, by phase."""

    model: str
    cells: Mapping[Phase, float]

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(self.cells.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Anatomy:
    """One entry's requests: an ensemble's, or those that call a model directly (`ensemble` None)."""

    server: str
    ensemble: str | None
    requests: float
    mean_seconds: float
    stages: tuple[Stage, ...]
    unattributed_seconds: float
    source: str

    def stage(self, model: str) -> Stage | None:
        """Return a member's stage, None when it is not one."""
        return next((stage for stage in self.stages if stage.model == model), None)


_CELLS = (
    (Phase.QUEUE, QUEUE_SECONDS),
    (Phase.INPUT, INPUT_SECONDS),
    (Phase.COMPUTE, COMPUTE_SECONDS),
    (Phase.OUTPUT, OUTPUT_SECONDS),
)


def anatomies(evidence: Evidence) -> tuple[Anatomy, ...]:
    """Return the anatomy of every entry that completed requests, busiest first."""
    found = []
    for server in evidence.subjects(Scope.SERVER):
        ensembles = [a for a in (_of_ensemble(evidence, e) for e in _ensembles(evidence, server)) if a]
        called = {stage.model for anatomy in ensembles for stage in anatomy.stages}
        models = {s.model for s in evidence.subjects(Scope.MODEL) if s.server == server.server and s.model}
        direct = [_of_model(evidence, server.server, model) for model in sorted(models - called)]
        found += [*ensembles, *(a for a in direct if a)]
    return tuple(sorted(found, key=lambda anatomy: -anatomy.requests * anatomy.mean_seconds))


def _ensembles(evidence: Evidence, server: Subject) -> Sequence[Subject]:
    return [subject for subject in evidence.subjects(Scope.ENSEMBLE) if subject.server == server.server]


def _of_ensemble(evidence: Evidence, on: Subject) -> Anatomy | None:
    requests, mean = evidence.read(REQUESTS, on), evidence.read(REQUEST_SECONDS, on)
    if not requests.value or mean.value is None or on.ensemble is None:
        return None
    ensemble = evidence.graph(on.server).ensembles[on.ensemble]
    stages = tuple(_stage(evidence, on.server, model) for model in ensemble.models())
    _, on_path = ensemble.longest_path({stage.model: stage.seconds for stage in stages})
    stages, rest = _with_engine(evidence, on.server, ensemble, stages, max(mean.value - on_path, 0.0))
    return Anatomy(
        server=on.server,
        ensemble=on.ensemble,
        requests=requests.value,
        mean_seconds=mean.value,
        stages=stages,
        unattributed_seconds=rest,
        source=mean.source,
    )


def _of_model(evidence: Evidence, server: str, model: str) -> Anatomy | None:
    on = Subject(server=server, model=model)
    requests, mean = evidence.read(REQUESTS, on), evidence.read(REQUEST_SECONDS, on)
    if not requests.value or mean.value is None:
        return None
    stage = _stage(evidence, server, model)
    return Anatomy(
        server=server,
        ensemble=None,
        requests=requests.value,
        mean_seconds=mean.value,
        stages=(stage,),
        unattributed_seconds=max(mean.value - stage.seconds, 0.0),
        source=mean.source,
    )


def _stage(evidence: Evidence, server: str, model: str) -> Stage:
    on = Subject(server=server, model=model)
    cells = {phase: evidence.read(signal, on).value or 0.0 for phase, signal in _CELLS}
    return Stage(model=model, cells=cells)


def _with_engine(
    evidence: Evidence, server: str, ensemble: Ensemble, stages: tuple[Stage, ...], rest: float
) -> tuple[tuple[Stage, ...], float]:
    hidden = [model for model in ensemble.models() if _hides_time(evidence, Subject(server=server, model=model))]
    if len(hidden) != 1:
        return stages, rest
    filled = tuple(
        replace(stage, cells={**stage.cells, Phase.ENGINE: rest}) if stage.model == hidden[0] else stage
        for stage in stages
    )
    return filled, 0.0


def _hides_time(evidence: Evidence, on: Subject) -> bool:
    config = evidence.config(on)
    decoupled = config is not None and config.decoupled
    return (evidence.is_engine(on) or decoupled) and not evidence.shows_engine_time(on)


def entry_of(anatomy: Sequence[Anatomy], evidence: Evidence, on: Subject) -> Entry | None:
    """Return the entry with the most time in it that a subject's requests belong to, None without traffic."""
    for candidate in anatomy:
        stage = candidate.stage(on.model or "") if candidate.server == on.server else None
        if stage is not None:
            return Entry(
                ensemble=candidate.ensemble,
                mean_seconds=candidate.mean_seconds,
                weight=_weight(evidence, on),
                requests=candidate.requests,
                engine_seconds=_engine_seconds(evidence, on, stage),
            )
        # A card slows whoever uses it: the entry with the most time in it stands for them.
        of_card = on.gpu is not None or candidate.ensemble == on.ensemble
        if candidate.server == on.server and on.model is None and of_card:
            return Entry(
                ensemble=candidate.ensemble,
                mean_seconds=candidate.mean_seconds,
                weight=1.0,
                requests=candidate.requests,
            )
    return None


def _engine_seconds(evidence: Evidence, on: Subject, stage: Stage) -> float:
    if not evidence.is_engine(on):
        return 0.0
    return stage.cells.get(Phase.COMPUTE if evidence.shows_engine_time(on) else Phase.ENGINE, 0.0)


def _weight(evidence: Evidence, on: Subject) -> float:
    own = evidence.read(REQUESTS, on).value
    everything = evidence.read(REQUESTS, Subject(server=on.server, model=on.model)).value
    return own / everything if own is not None and everything else 1.0
