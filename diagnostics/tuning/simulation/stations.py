"""A model's scheduler and instances, made of its settings, and executions that hold one while they call others."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import durations, stream
from diagnostics.tuning.simulation.engine import InFlight
from diagnostics.tuning.simulation.instances import (
    Alone,
    Computing,
    Ended,
    Execution,
    Instances,
    Limited,
    Overlapping,
    RateLimiter,
)
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.schedulers import Batcher, Queued, Unbatched
from diagnostics.tuning.simulation.sharing import ProcessorSharing, SharedComputing
from diagnostics.tuning.simulation.visits import InnerVisit, RequestVisit, Station, StepNode


class Calling:
    """What a caller's executions compute on: their own part first, then their calls, one after another.

    The time of the calls is none of the execution's own: it is the called models'.
    """

    __slots__ = ("_at", "_computing")

    def __init__(self, clock: EventQueue, computing: Computing) -> None:
        self._at, self._computing = clock.at, computing

    def run(self, now: float, execution: Execution, ended: Ended) -> None:
        left = _calls(execution)
        self._computing.run(now, execution, lambda time, _: self._call(time, execution, left, ended))

    def _call(
        self, now: float, execution: Execution, left: Iterator[tuple[StepNode, RequestVisit]], ended: Ended
    ) -> None:
        following = next(left, None)
        if following is None:
            ended(now, execution)
            return
        stage, caller = following

        def returned(time: float) -> None:
            execution.begun += time - now
            # Planned rather than called at once, so that no scheduler is asked again while it answers.
            self._at(time, lambda later, _: self._call(later, execution, left, ended), None)

        stage.begin(now, InnerVisit(caller, stage, returned))


def _calls(execution: Execution) -> Iterator[tuple[StepNode, RequestVisit]]:
    """Yield the stages to be called and the visits that call them; a request that has failed makes no more calls."""
    for visit in execution.visits:
        assert isinstance(visit, RequestVisit)
        for stage in visit.stage.calls:
            if not visit.request.failed:
                yield stage, visit


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What models that run together have in common."""

    clock: EventQueue
    seed: int
    sharing: ProcessorSharing
    limiter: RateLimiter
    callers: Collection[str]

    def computing(self, model: Model) -> Computing:
        """Return what a model's executions compute on."""
        computing = self.sharing.computing(model.demand, model.instances)
        return Calling(self.clock, computing) if model.name in self.callers else computing


def station(run: Surroundings, model: Model, log: ModelLog) -> Station:
    """Return what takes a model's visits."""
    rng = stream(run.seed, f"service {model.name}")
    computing = run.computing(model)
    if model.engine:
        shared = computing if isinstance(computing, SharedComputing) else None
        return InFlight(run.clock, log, model.engine, rng, shared)
    seconds = durations(model, rng)
    limited = Limited(model.rate_limit, model.instances) if model.rate_limit else None
    limiter = run.limiter if limited else None
    kind = Overlapping if model.in_flight > 1 else Instances
    if model.batcher:
        batcher = Batcher(run.clock, log, model, stream(run.seed, f"race {model.name}"), limiter, limited)
        batcher.instances = kind(run.clock, log, model, seconds, computing, batcher.freed)
        if batcher.ordering:
            batcher.instances.respond = batcher.ordering.respond
        return batcher
    if limited or model.in_flight > 1 or not isinstance(computing, Alone):
        queued = Queued(run.clock, log, model, limiter, limited)
        queued.instances = kind(run.clock, log, model, seconds, computing, queued.freed)
        return queued
    return Unbatched(run.clock, log, model, seconds)
