"""Too few instances, and the same under little load."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.draws.base import Drawn, healthy_deployment, poisson


def _single(chance: random.Random, busy: tuple[float, float], kind: str, causes: tuple[str, ...]) -> Drawn:
    rate = chance.uniform(15, 50)
    deployment = healthy_deployment(chance, rate)
    target = chance.choice(deployment.stages)
    instances = chance.choice((1, 1, 1, 2))
    base = 1e3 * instances * chance.uniform(*busy) / rate - 0.4
    deployment = deployment.changed(
        target.name, base_ms=base, per_item_ms=0.0, instances=instances, max_batch=1, delay_us=None
    )
    return Drawn(
        kind=kind,
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name if causes else "",
        causes=causes,
        also=("capacity-exceeded",) if causes else (),
    )


def single_instance(chance: random.Random) -> Drawn:
    return _single(chance, (0.86, 0.97), "single-instance", ("single-instance-serialization",))


def single_instance_idle(chance: random.Random) -> Drawn:
    return _single(chance, (0.15, 0.35), "single-instance-idle", ())


def overflow(chance: random.Random) -> Drawn:
    drawn = single_instance(chance)
    limit = chance.randint(2, 6)
    rate = drawn.load.rate * chance.uniform(1.4, 1.9)
    return replace(
        drawn,
        kind="queue-overflow",
        deployment=drawn.deployment.changed(drawn.target, queue_limit=limit),
        load=replace(drawn.load, rate=rate),
        causes=("queue-rejections", "single-instance-serialization", "scheduler-stall"),
        also=("queue-rejections", "single-instance-serialization", "scheduler-stall", "capacity-exceeded"),
    )


def limit_unreached(chance: random.Random) -> Drawn:
    drawn = single_instance_idle(chance)
    stage = chance.choice(drawn.deployment.stages)
    deployment = drawn.deployment.changed(stage.name, queue_limit=1000)
    return replace(drawn, kind="limit-unreached", deployment=deployment)


def expiring(chance: random.Random) -> Drawn:
    """Requests that give up in the queue of a stage that is asked for more than it can do."""
    drawn = overflow(chance)
    return replace(
        drawn.changed(drawn.target, queue_limit=0, queue_timeout_ms=chance.randint(60, 250)), kind="queue-timeout"
    )


def timeout_unreached(chance: random.Random) -> Drawn:
    drawn = single_instance_idle(chance)
    stage = chance.choice(drawn.deployment.stages)
    return replace(drawn.changed(stage.name, queue_timeout_ms=chance.randint(2000, 9000)), kind="timeout-unreached")
