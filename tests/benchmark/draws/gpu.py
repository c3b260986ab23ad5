"""Incidents of a GPU."""

from __future__ import annotations

import random
from dataclasses import replace

from diagnostics.loadgen.load import LoadProfile, Pattern
from tests.benchmark.deployment import Deployment
from tests.benchmark.draws.base import DURATION, Drawn, healthy_deployment, poisson


def _gpu(chance: random.Random, rate: float, busy: float, size: int, instances: int) -> tuple[Deployment, str]:
    """Return a deployment with one stage on the GPU that would be `busy` if the card were its own."""
    deployment = replace(healthy_deployment(chance, rate), side=None)
    target = chance.choice(deployment.stages).name
    base = max(1e3 * busy * instances / rate - 0.4, 0.5)
    changed = deployment.changed(
        target, base_ms=base, per_item_ms=0, instances=instances, max_batch=1, delay_us=None, mode="gpu", gpu_size=size
    )
    return changed, target


def gpu_single(chance: random.Random) -> Drawn:
    rate = chance.uniform(25, 60)
    deployment, target = _gpu(chance, rate, chance.uniform(0.75, 0.85), chance.choice((512, 768, 1024)), 1)
    return Drawn(
        kind="gpu-single-instance",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate * 1.12),
        target=target,
        causes=("single-instance-serialization",),
        also=("capacity-exceeded",),
    )


def gpu_idle(chance: random.Random) -> Drawn:
    rate = chance.uniform(20, 40)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.2, 0.4), chance.choice((512, 1024, 4096)), 1)
    return Drawn(kind="gpu-idle", deployment=deployment, load=poisson(chance, deployment.ensemble, rate))


def gpu_full(chance: random.Random) -> Drawn:
    rate = chance.uniform(15, 30)
    deployment, target = _gpu(chance, rate, chance.uniform(0.62, 0.75), 8192, chance.choice((2, 3)))
    return Drawn(
        kind="gpu-saturated",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=target,
        causes=("gpu-saturated",),
        also=("gpu-throttled", "capacity-exceeded", "over-instanced"),
    )


def gpu_crowded(chance: random.Random) -> Drawn:
    deployment, target = _gpu(chance, 20.0, 0.1, 8192, 10)
    deployment = deployment.changed(target, base_ms=chance.uniform(8, 14), instances=chance.randint(9, 14))
    load = LoadProfile(
        model=target, pattern=Pattern.CLOSED, concurrency=chance.randint(22, 30), duration=DURATION, seed=1
    )
    return Drawn(
        kind="gpu-over-instanced",
        deployment=deployment,
        load=load,
        target=target,
        causes=("gpu-saturated", "over-instanced"),
        also=("gpu-saturated", "over-instanced", "gpu-throttled", "capacity-exceeded"),
    )


def gpu_shared(chance: random.Random) -> Drawn:
    rate = chance.uniform(20, 35)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.2, 0.3), chance.choice((1024, 2048)), 2)
    return Drawn(
        kind="gpu-noisy-neighbour",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        causes=("gpu-contended-by-other-process",),
        also=("gpu-saturated", "gpu-throttled"),
        neighbour=chance.uniform(0.4, 0.7),
    )


def gpu_in_use(chance: random.Random) -> Drawn:
    """Three instances half busy: the card is in use most of the time, and nothing waits."""
    rate = chance.uniform(25, 50)
    deployment, _ = _gpu(chance, rate, chance.uniform(0.22, 0.3), chance.choice((512, 1024)), 3)
    return Drawn(kind="gpu-in-use", deployment=deployment, load=poisson(chance, deployment.ensemble, rate))
