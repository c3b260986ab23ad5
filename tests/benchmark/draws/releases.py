"""New versions in the middle of the traffic."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.benchmark.draws.base import Drawn, healthy_deployment, poisson


def cold_start(chance: random.Random) -> Drawn:
    rate = chance.uniform(10, 25)
    deployment = healthy_deployment(chance, rate)
    target = chance.choice(deployment.stages)
    return Drawn(
        kind="cold-start",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=target.name,
        causes=("cold-start",),
        also=("model-reload-stall",),
        release=replace(target, first_ms=chance.uniform(900, 2500)),
    )


def release_warm(chance: random.Random) -> Drawn:
    rate = chance.uniform(10, 25)
    deployment = healthy_deployment(chance, rate)
    return Drawn(
        kind="release-warm",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        release=chance.choice(deployment.stages),
    )


def slower_version(chance: random.Random) -> Drawn:
    """A version that executes longer than the one before it, and still has instances enough."""
    rate, base, factor = chance.uniform(10, 20), chance.uniform(12, 40), chance.uniform(1.7, 3.0)
    deployment = healthy_deployment(chance, rate)
    name = chance.choice(deployment.stages).name
    instances = round(rate * base * factor / 1e3 / chance.uniform(0.3, 0.6) + 0.5)
    deployment = deployment.changed(name, base_ms=base, per_item_ms=0.0, instances=max(1, instances))
    return Drawn(
        kind="version-regression",
        deployment=deployment,
        load=poisson(chance, deployment.ensemble, rate),
        target=name,
        causes=("version-regression",),
        also=("single-instance-serialization",),
        release=replace(deployment.stage(name), base_ms=base * factor),
    )


def release_slow_to_load(chance: random.Random) -> Drawn:
    """A version that takes seconds to load, beside the one that serves meanwhile."""
    drawn = release_warm(chance)
    assert drawn.release is not None
    return replace(drawn, kind="release-slow-to-load", release=replace(drawn.release, load_ms=chance.uniform(2e3, 6e3)))
