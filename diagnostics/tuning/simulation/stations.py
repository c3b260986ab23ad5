"""A model's scheduler and instances, made of its settings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from diagnostics.tuning.simulation.calling import Calling
from diagnostics.tuning.simulation.clock import EventQueue
from diagnostics.tuning.simulation.draws import durations, stream
from diagnostics.tuning.simulation.engine import InFlight
from diagnostics.tuning.simulation.instances import Alone, Computing, Instances, Limited, Overlapping, RateLimiter
from diagnostics.tuning.simulation.observing import ModelLog
from diagnostics.tuning.simulation.scenario import Model
from diagnostics.tuning.simulation.schedulers import Batcher, Queued, Unbatched
from diagnostics.tuning.simulation.sharing import ProcessorSharing, SharedComputing
from diagnostics.tuning.simulation.visits import Station


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
        computing = self.sharing.computing(model.demand)
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
