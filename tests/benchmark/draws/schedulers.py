"""What holds instances or slots: callers of other models, sequences, priorities."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.deployment import Deployment, StageSpec
from tests.benchmark.draws.base import Drawn, Traffic, healthy_deployment, names_of, poisson, rate_of


def _caller(chance: random.Random, busy: tuple[float, float], kind: str) -> Drawn:
    """A model in the ensemble's place that calls the stages one after another; `busy` is what its instances are."""
    deployment = replace(healthy_deployment(chance, 15.0), side=None)
    instances = chance.choice((1, 1, 2, 3))
    # A call adds about a millisecond to what the called model takes; the engine 26 iterations and one prompt.
    seconds = sum(stage.seconds() + 0.0012 for stage in deployment.stages)
    if deployment.engine is not None:
        seconds += 0.009 + 26 * (deployment.engine.decode_ms + 0.1) / 1e3
    rate = chance.uniform(*busy) * instances / seconds
    for stage in deployment.stages:
        enough = max(stage.instances, round(rate * stage.seconds() / 0.4 + 0.5))
        deployment = deployment.changed(stage.name, instances=min(enough, 8), delay_us=None)
    return Drawn(
        kind=kind,
        deployment=replace(deployment, callers=instances),
        load=poisson(chance, deployment.ensemble, rate),
    )


def caller(chance: random.Random) -> Drawn:
    drawn = _caller(chance, (0.9, 1.0), "bls-serialization")
    return replace(drawn, target=drawn.deployment.ensemble, causes=("bls-serialization",), also=("capacity-exceeded",))


def caller_idle(chance: random.Random) -> Drawn:
    return _caller(chance, (0.1, 0.3), "caller-idle")


def _alone(chance: random.Random, stage: StageSpec) -> Deployment:
    """Return a deployment of one stage that clients call themselves."""
    deployment = replace(healthy_deployment(chance, 20, engine=False), stages=(stage,), side=None, engine_after=0)
    return replace(deployment, ensemble=deployment.ensemble + "-all")


def _sequences(chance: random.Random, busy: tuple[float, float], kind: str) -> Drawn:
    """Sequences that hold a slot while their client thinks; `busy` is how many of the slots are held."""
    stage = StageSpec(
        name=names_of(chance, 1)[0],
        base_ms=chance.uniform(3, 9),
        max_batch=chance.choice((2, 3, 4)),
        instances=chance.choice((1, 1, 2)),
        sequence_idle_ms=5000,
    )
    traffic = Traffic(turns=chance.randint(4, 9), pause=chance.uniform(0.06, 0.15))
    held = traffic.turns * (stage.seconds() + 0.003) + (traffic.turns - 1) * traffic.pause
    rate = chance.uniform(*busy) * stage.max_batch * stage.instances / held
    return Drawn(
        kind=kind,
        deployment=_alone(chance, stage),
        load=poisson(chance, stage.name, rate),
        target=stage.name,
        traffic=traffic,
    )


def sequences(chance: random.Random) -> Drawn:
    drawn = _sequences(chance, (1.0, 1.25), "sequence-slots")
    return replace(drawn, causes=("sequence-batcher-starved",))


def sequences_idle(chance: random.Random) -> Drawn:
    return replace(_sequences(chance, (0.1, 0.25), "sequence-slots-idle"), target="")


def _priorities(chance: random.Random, busy: tuple[float, float], kind: str) -> Drawn:
    stage = StageSpec(name=names_of(chance, 1)[0], base_ms=chance.uniform(8, 25), priorities=True)
    rate = rate_of(stage, chance.uniform(*busy), 1)
    return Drawn(
        kind=kind,
        deployment=_alone(chance, stage),
        load=poisson(chance, stage.name, rate),
        target=stage.name,
        traffic=Traffic(high=chance.uniform(0.65, 0.85)),
    )


def priorities(chance: random.Random) -> Drawn:
    """A stage that is nearly full and serves its low priority last: one more instance helps, and so does its own."""
    drawn = _priorities(chance, (0.94, 0.99), "priority-starvation")
    both = ("priority-starvation", "single-instance-serialization")
    return replace(drawn, causes=both, also=(*both, "capacity-exceeded", "scheduler-stall"))


def priorities_idle(chance: random.Random) -> Drawn:
    return replace(_priorities(chance, (0.15, 0.3), "priorities-idle"), target="")
