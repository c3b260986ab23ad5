"""Several servers, and processors that a server may use."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.draws.base import Drawn, healthy_deployment, poisson


def _fleet(chance: random.Random, busy: float, shares: tuple[float, ...], kind: str) -> Drawn:
    """Servers of one stage that matters, which is `busy` where most of the traffic goes."""
    rate = chance.uniform(15, 30)
    deployment = replace(healthy_deployment(chance, rate, engine=False), side=None)
    name = chance.choice(deployment.stages).name
    base = 1e3 * busy / (rate * max(shares)) - 0.4
    deployment = deployment.changed(name, base_ms=base, per_item_ms=0.0, instances=1, max_batch=1, delay_us=None)
    load = poisson(chance, deployment.ensemble, rate)
    return Drawn(kind=kind, deployment=deployment, load=load, target=name, shares=shares)


def _even(chance: random.Random) -> tuple[float, ...]:
    return chance.choice(((0.5, 0.5), (1 / 3, 1 / 3, 1 / 3)))


def uneven(chance: random.Random) -> Drawn:
    most = chance.uniform(0.78, 0.88)
    shares = chance.choice(((most, 1 - most), (most - 0.1, (1.1 - most) / 2, (1.1 - most) / 2)))
    drawn = _fleet(chance, chance.uniform(0.88, 0.96), shares, "replica-imbalance")
    even = tuple(1 / len(shares) for _ in shares)
    repairs = {
        "replica-imbalance": replace(drawn, shares=even),
        "single-instance-serialization": drawn.changed(drawn.target, instances=2),
    }
    return replace(drawn, target="", causes=("replica-imbalance",), also=tuple(repairs), repairs=repairs)


def slow_replica(chance: random.Random) -> Drawn:
    """A server that executes one stage longer than the others, with room left."""
    drawn = _fleet(chance, chance.uniform(0.2, 0.3), _even(chance), "replica-outlier")
    factor = chance.uniform(1.7, 2.5)
    slowed = drawn.deployment.changed(drawn.target, base_ms=drawn.deployment.stage(drawn.target).base_ms * factor)
    return replace(drawn, target="", slowed=slowed, causes=("replica-outlier",), also=("replica-outlier",))


def even_fleet(chance: random.Random) -> Drawn:
    return replace(_fleet(chance, chance.uniform(0.2, 0.35), _even(chance), "fleet-even"), target="")


def uneven_unfelt(chance: random.Random) -> Drawn:
    most = chance.uniform(0.75, 0.85)
    return replace(_fleet(chance, chance.uniform(0.1, 0.2), (most, 1 - most), "fleet-uneven-unfelt"), target="")


def _on_few_cores(chance: random.Random, busy: float, kind: str) -> Drawn:
    """A stage that works on processors, with more instances than the server may use processors."""
    rate, cores = chance.uniform(12, 25), chance.randint(1, 2)
    deployment = replace(healthy_deployment(chance, rate, engine=False), side=None)
    name = chance.choice(deployment.stages).name
    deployment = deployment.changed(
        name,
        # What the other stages and the server itself use is a tenth of a core or so.
        base_ms=1e3 * (busy * cores - 0.1) / rate,
        per_item_ms=0.0,
        instances=cores + chance.randint(1, 3),
        max_batch=1,
        delay_us=None,
        mode="work",
    )
    load = poisson(chance, deployment.ensemble, rate)
    return Drawn(kind=kind, deployment=deployment, load=load, target=name, cores=cores)


def few_cores(chance: random.Random) -> Drawn:
    drawn = _on_few_cores(chance, chance.uniform(1.0, 1.2), "host-cpu-starved")
    instances = drawn.deployment.stage(drawn.target).instances
    repairs = {
        "host-cpu-starved": replace(drawn, cores=4 * drawn.cores),
        "single-instance-serialization": drawn.changed(drawn.target, instances=2 * instances),
    }
    return replace(drawn, causes=("host-cpu-starved",), also=("capacity-exceeded",), repairs=repairs)


def few_cores_idle(chance: random.Random) -> Drawn:
    return replace(_on_few_cores(chance, chance.uniform(0.3, 0.4), "few-cores-idle"), target="")
