"""Batches that do not form, form too late, or gain nothing."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.deployment import StageSpec
from tests.benchmark.draws.base import Drawn, healthy_deployment, names_of, poisson, rate_of


def _unbatched(chance: random.Random, busy: tuple[float, float], share: tuple[float, float], kind: str) -> Drawn:
    """A stage that may batch and does not; `share` is what a further item costs."""
    base = chance.uniform(4, 20)
    cost = base * chance.uniform(*share)
    stage = StageSpec(
        name=names_of(chance, 1)[0], base_ms=base - cost, per_item_ms=cost, max_batch=chance.choice((8, 16, 32))
    )
    rate = rate_of(stage, chance.uniform(*busy), 1)
    deployment = healthy_deployment(chance, min(rate, 40.0))
    stages = (stage, *(s for s in deployment.stages if s.name != stage.name))
    deployment = replace(deployment, stages=stages, side=None, engine_after=len(stages) - 1)
    direct = rate > 60
    return Drawn(
        kind=kind,
        deployment=deployment if not direct else replace(deployment, engine=None),
        load=poisson(chance, stage.name if direct else deployment.ensemble, rate),
    )


def batch_collapse(chance: random.Random) -> Drawn:
    drawn = _unbatched(chance, (0.88, 0.96), (0.02, 0.1), "batch-collapse")
    name = drawn.deployment.stages[0].name
    return replace(
        drawn,
        target=name,
        causes=("batch-size-collapse",),
        also=("single-instance-serialization", "capacity-exceeded"),
        repairs={
            "batch-size-collapse": drawn.changed(name, delay_us=0),
            "single-instance-serialization": drawn.changed(name, instances=2),
        },
    )


def unbatched_idle(chance: random.Random) -> Drawn:
    return _unbatched(chance, (0.1, 0.35), (0.02, 0.1), "unbatched-idle")


def batch_window(chance: random.Random) -> Drawn:
    rate = chance.uniform(8, 20)
    deployment = healthy_deployment(chance, rate)
    target = chance.choice(deployment.stages)
    window = chance.randint(30, 90) * 1000
    deployment = deployment.changed(
        target.name, base_ms=chance.uniform(2, 6), per_item_ms=0.2, max_batch=64, delay_us=window
    )
    return Drawn(
        kind="batch-window",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("batch-window-mistuned",),
    )


def window_harmless(chance: random.Random) -> Drawn:
    """A window of a few milliseconds in a pipeline of hundreds."""
    rate = chance.uniform(8, 20)
    deployment = healthy_deployment(chance, rate, engine=True)
    target = chance.choice(deployment.stages)
    deployment = deployment.changed(target.name, base_ms=4.0, per_item_ms=0.2, max_batch=64, delay_us=4000)
    return Drawn(kind="window-harmless", deployment=deployment, load=poisson(chance, deployment.ensemble, rate))


def no_gain(chance: random.Random) -> Drawn:
    base = chance.uniform(6, 14)
    name = names_of(chance, 1)[0]
    stage = StageSpec(name=name, base_ms=0.4, per_item_ms=base, max_batch=16, delay_us=2000)
    deployment = replace(healthy_deployment(chance, 20, engine=False), stages=(stage,), side=None, engine_after=0)
    deployment = replace(deployment, ensemble=deployment.ensemble + "-all")
    drawn = Drawn(
        kind="batch-no-gain",
        deployment=deployment,
        load=poisson(chance, name, chance.uniform(0.9, 0.95) / (base + 0.6) * 1e3),
        target=name,
        causes=("single-instance-serialization", "batching-without-gain"),
        also=("single-instance-serialization", "batching-without-gain", "capacity-exceeded"),
    )
    more, none = drawn.changed(name, instances=2), drawn.changed(name, delay_us=None)
    return replace(drawn, repairs={"single-instance-serialization": more, "batching-without-gain": none})
